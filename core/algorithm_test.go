package core

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// TestEveryAlgorithm walks all algorithms through what the engine knows of them.
func TestEveryAlgorithm(t *testing.T) {
	if want := constants(t); len(want) != len(Algorithms()) {
		t.Fatalf("the constants are %q, the algorithms are %v", want, Algorithms())
	}
	names := map[string]bool{}
	for i, a := range Algorithms() {
		t.Run(a.String(), func(t *testing.T) {
			if own := a.properties(); own.constant != constants(t)[i] {
				t.Errorf("algorithm %d is called %s, its constant is %s", i, own.constant, constants(t)[i])
			}
			if name := a.String(); names[name] || name == "" || strings.ContainsAny(name, "( :/%") {
				t.Errorf("algorithm %d has the name %q, want one word of its own", i, name)
			}
			names[a.String()] = true
			limit := PerMinute(1).Using(a)
			if got, err := ParseLimit(limit.String()); got != limit || err != nil {
				t.Errorf("%v is read as %v, %v", limit, got, err)
			}
		})
	}
}

// constants returns the names of the constants of type Algorithm, which one const
// declaration has in the order of their numbers.
func constants(t *testing.T) (names []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "algorithm.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range file.Decls {
		d, ok := d.(*ast.GenDecl)
		if !ok || d.Tok != token.CONST {
			continue
		}
		first, _ := d.Specs[0].(*ast.ValueSpec)
		if kind, _ := first.Type.(*ast.Ident); kind == nil || kind.Name != "Algorithm" {
			continue
		}
		for _, spec := range d.Specs {
			names = append(names, spec.(*ast.ValueSpec).Names[0].Name)
		}
	}
	return names
}

// TestUnknownAlgorithm: an algorithm that a method does not know panics there, and
// is not taken for another one.
func TestUnknownAlgorithm(t *testing.T) {
	unknown := PerMinute(1).Using(Algorithm(len(Algorithms())))
	for name, call := range map[string]func(){
		"steady":   func() { unknown.Algorithm.Steady() },
		"leasable": func() { unknown.Algorithm.Leasable() },
		"code":     func() { _ = unknown.code() },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				text, _ := recover().(string)
				if !strings.Contains(text, "unknown algorithm: "+unknown.Algorithm.String()) {
					t.Errorf("the panic is %q", text)
				}
			}()
			call()
		})
	}
	if slices.Contains(Algorithms(), unknown.Algorithm) || !strings.HasPrefix(unknown.Algorithm.String(), "Algorithm(") {
		t.Errorf("an unknown algorithm is called %v", unknown.Algorithm)
	}
}

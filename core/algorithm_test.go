package core

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestEveryAlgorithm walks all algorithms through what the engine knows of them.
func TestEveryAlgorithm(t *testing.T) {
	names := map[string]bool{}
	for i, a := range Algorithms() {
		t.Run(a.String(), func(t *testing.T) {
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

// TestRooms: which algorithm it is, the code asks in the files of the algorithms alone, so that another one takes no
// case anywhere.
func TestRooms(t *testing.T) {
	names := constants(t)
	var rooms []string // the files that may ask
	for _, dir := range []string{"internal/window", "redisstore/internal/script", "internal/model/worlds"} {
		for _, a := range Algorithms() {
			rooms = append(rooms, filepath.Join("../core", dir, a.String()+".go"))
		}
	}
	seen := 0
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			_, err := os.Stat(filepath.Join(path, "go.mod"))
			if path != ".." && (err == nil || strings.HasPrefix(entry.Name(), ".")) || // another module
				slices.Contains([]string{"../examples", "../bench", "../docs"}, filepath.ToSlash(path)) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || path == "../core/algorithm.go" {
			return nil
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		kind := func(e ast.Expr) bool {
			name, _ := e.(*ast.Ident)
			if of, ok := e.(*ast.SelectorExpr); ok {
				if from, ok := of.X.(*ast.Ident); ok && from.Name == "core" {
					name = of.Sel
				}
			} else if file.Name.Name != "core" {
				return false
			}
			return name != nil && slices.Contains(names, name.Name)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			asks := false
			switch n := n.(type) {
			case *ast.CaseClause:
				asks = slices.ContainsFunc(n.List, kind)
			case *ast.BinaryExpr:
				asks = (n.Op == token.EQL || n.Op == token.NEQ) && (kind(n.X) || kind(n.Y))
			case *ast.IndexExpr:
				asks = kind(n.Index)
			}
			if asks {
				seen++
				if !slices.Contains(rooms, path) {
					t.Errorf("%v asks for an algorithm by name", files.Position(n.Pos()))
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen < len(rooms) { // each adds itself
		t.Errorf("%d places ask, fewer than the %d rooms", seen, len(rooms))
	}
}

// TestUnknownAlgorithm: an algorithm that a method does not know panics there, and
// is not taken for another one.
func TestUnknownAlgorithm(t *testing.T) {
	unknown := PerMinute(1).Using(Algorithm(len(Algorithms())))
	for name, call := range map[string]func(){
		"steady":   func() { unknown.Algorithm.Steady() },
		"leasable": func() { unknown.Algorithm.Leasable() },
		"even":     func() { unknown.Algorithm.Even() },
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

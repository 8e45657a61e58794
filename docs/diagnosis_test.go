package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
)

// noticeCodes returns the codes of package core by the names of their constants.
func noticeCodes(t *testing.T) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../core/notice.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	codes := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		value, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(value.Names[0].Name, "Notice") {
			return true
		}
		code, err := strconv.Unquote(value.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		codes[value.Names[0].Name] = code
		return true
	})
	return codes
}

// TestDiagnosis: every code of a notice has a paragraph, which says how to turn it off,
// every paragraph is about a code, and every code can be turned off.
func TestDiagnosis(t *testing.T) {
	text, err := os.ReadFile("diagnosis.md")
	if err != nil {
		t.Fatal(err)
	}
	paragraphs := map[string]string{}
	for _, section := range strings.Split(string(text), "\n## ") {
		if heading := regexp.MustCompile("^`(.+)`\n").FindStringSubmatch(section); heading != nil {
			paragraphs[heading[1]] = section
		}
	}
	codes := noticeCodes(t)
	if len(codes) < 4 {
		t.Errorf("found %d codes: were all constants found?", len(codes))
	}
	var known []string
	for name, code := range codes {
		known = append(known, code)
		parts := []string{"**What it means.**", "**How it shows.**", "**What to do.**", "`core." + name + "`"}
		for _, part := range parts {
			if !strings.Contains(paragraphs[code], part) {
				t.Errorf("the paragraph of %q has no %s", code, part)
			}
		}
		_, err := core.New(core.Config{
			Store: memstore.New(), Limits: []core.Limit{core.PerMinute(1)}, Quiet: []string{code},
		})
		if err != nil {
			t.Errorf("quiet about %q: %v", code, err)
		}
	}
	for code := range paragraphs {
		if !slices.Contains(known, code) {
			t.Errorf("a paragraph is about %q, which is no code", code)
		}
	}
}

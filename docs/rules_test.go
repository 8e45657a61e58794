package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestRulesHaveTests: every test that a comment names, as what fails without a rule, is a
// test of the same package, or of the package that the comment names: "TestX in memstore", "TestX of redisstore".
func TestRulesHaveTests(t *testing.T) {
	named := regexp.MustCompile(`\b(Test[A-Z]\w+)(?:\s+(?:in|of)\s+(\w+))?`)
	code := regexp.MustCompile(`(?m)^\t.*$`) // within a comment
	type test struct{ dir, name string }
	tests, places := map[test]bool{}, map[test]token.Position{}
	packages := map[string]string{
		"memstore": "../core/memstore", "redisstore": "../core/redisstore", "nethttp": "../nethttp",
		"script": "../core/redisstore/internal/script",
	}
	files := token.NewFileSet()
	err := filepath.WalkDir("..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") {
			return err
		}
		file, err := parser.ParseFile(files, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		dir := filepath.Dir(path)
		if strings.HasSuffix(path, "_test.go") {
			for _, decl := range file.Decls {
				if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil {
					tests[test{dir, f.Name.Name}] = true
				}
			}
			return nil
		}
		for _, comment := range file.Comments {
			text := code.ReplaceAllString(comment.Text(), "")
			for _, name := range named.FindAllStringSubmatch(text, -1) {
				in, ok := packages[name[2]]
				if !ok {
					in = dir
				}
				places[test{in, name[1]}] = files.Position(comment.Pos())
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, at := range places {
		if !tests[name] && name.name != "TestMain" {
			t.Errorf("%v: %s has no %s", at, name.dir, name.name)
		}
	}
	if len(tests) < 100 {
		t.Errorf("%d tests are there, want more: were all files found?", len(tests))
	}
}

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

// TestRulesHaveTests: every test that a comment names, as what fails without a rule, is a test of the same package.
func TestRulesHaveTests(t *testing.T) {
	named := regexp.MustCompile(`\bTest[A-Z]\w+`)
	code := regexp.MustCompile(`(?m)^\t.*$`) // within a comment
	type test struct{ dir, name string }
	tests, places := map[test]bool{}, map[test]token.Position{}
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
			for _, name := range named.FindAllString(text, -1) {
				places[test{dir, name}] = files.Position(comment.Pos())
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, at := range places {
		if !tests[name] && name.name != "TestMain" {
			t.Errorf("%v: the package has no %s", at, name.name)
		}
	}
	if len(places) < 20 {
		t.Errorf("comments name %d tests, want more: were all files found?", len(places))
	}
}

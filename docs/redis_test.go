package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	lineComments = regexp.MustCompile(`(?m)//.*$`)
	redisStores  = regexp.MustCompile(`\bredisstore\.(New|Open)\(`)
)

// mustCheck checks that code which makes a store in Redis calls its Check. It reports
// whether the code makes one.
func mustCheck(t *testing.T, place, code string) bool {
	t.Helper()
	code = lineComments.ReplaceAllString(strings.ReplaceAll(code, "://", ""), "")
	makes := redisStores.MatchString(code)
	if makes && !strings.Contains(code, ".Check(") {
		t.Errorf("%s: a store in Redis is made, and its Check is not called", place)
	}
	return makes
}

// TestRedisSnippetsCheck: every snippet of the pages and every example that makes a store
// in Redis calls Check, as a program does that wants to hear of a wrong password.
func TestRedisSnippetsCheck(t *testing.T) {
	found := 0
	for page, text := range pages(t) {
		for _, block := range blocks.FindAllStringSubmatch(text, -1) {
			if mustCheck(t, page, block[1]) {
				found++
			}
		}
	}
	err := filepath.WalkDir("..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "example_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, text, 0)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if ok && mustCheck(t, path+": "+f.Name.Name, string(text[f.Pos()-1:f.End()-1])) {
				found++
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	programs, err := filepath.Glob("../examples/*/main.go")
	if err != nil || len(programs) < 5 {
		t.Fatal(err, programs)
	}
	for _, program := range programs {
		text, err := os.ReadFile(program)
		if err != nil {
			t.Fatal(err)
		}
		if code := strings.ReplaceAll(string(text), ".Check\n", ".Check()\n"); mustCheck(t, program, code) {
			found++
		}
	}
	if found < 6 {
		t.Errorf("%d snippets make a store in Redis: were all found?", found)
	}
}

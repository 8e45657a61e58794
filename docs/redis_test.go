package docs_test

import (
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
	functions    = regexp.MustCompile(`(?ms)^func .*?^}$`)
)

// TestRedisSnippetsCheck: every snippet of the pages, and every function of an example, that makes a store in Redis
// names its Check, as a program does that wants to hear of a wrong password.
func TestRedisSnippetsCheck(t *testing.T) {
	snippets := map[string][]string{}
	for page, text := range pages(t) {
		snippets[page] = blocks.FindAllString(text, -1)
	}
	err := filepath.WalkDir("..", func(path string, _ fs.DirEntry, err error) error {
		program, _ := filepath.Match("../examples/*/main.go", path)
		if err != nil || !program && !strings.HasSuffix(path, "example_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		snippets[path] = functions.FindAllString(string(text), -1)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for place, all := range snippets {
		for _, code := range all {
			code = lineComments.ReplaceAllString(strings.ReplaceAll(code, "://", ""), "")
			if !redisStores.MatchString(code) {
				continue
			}
			if found++; !strings.Contains(code, ".Check") {
				t.Errorf("%s: a store in Redis is made, and its Check is not called:\n%s", place, code)
			}
		}
	}
	if found < 6 {
		t.Errorf("%d snippets make a store in Redis: were all found?", found)
	}
}

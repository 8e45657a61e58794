package docs_test

import (
	"go/build/constraint"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestTags: make test runs every test of the module: with the race detector, or by the line that the Makefile finds.
func TestTags(t *testing.T) {
	const single = "//go:build !race && !short"
	makefile, err := os.ReadFile("../Makefile")
	if err != nil || !strings.Contains(string(makefile), "'"+single+"'") {
		t.Fatalf("the Makefile does not look for %q: %v", single, err)
	}
	set := func(tag string) bool { return tag == "race" || tag == runtime.GOOS || tag == runtime.GOARCH }
	seen := 0
	err = filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if _, err := os.Stat(filepath.Join(path, "go.mod")); entry.IsDir() && err == nil && path != ".." {
			return filepath.SkipDir // another module, which make test runs whole
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		for line := range strings.Lines(string(text)) {
			if line = strings.TrimSpace(line); !constraint.IsGoBuild(line) {
				continue
			}
			seen++
			if expr, err := constraint.Parse(line); err != nil || line != single && !expr.Eval(set) {
				t.Errorf("%s: make test leaves a file out by %s: %v", path, line, err)
			}
		}
		return err
	})
	if err != nil || seen < 20 {
		t.Errorf("%d files with a tag, want more: were all files found? %v", seen, err)
	}
}

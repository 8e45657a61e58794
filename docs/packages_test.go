package docs_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestPackagesBeginWithAnExample: the comment of every public package shows code before its
// first heading.
func TestPackagesBeginWithAnExample(t *testing.T) {
	count := 0
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := entry.Name(); entry.IsDir() && path != ".." &&
			(strings.HasPrefix(name, ".") || slices.Contains([]string{"internal", "examples", "bench", "testdata"}, name)) {
			return fs.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil || file.Doc == nil {
			return err
		}
		count++
		if first, _, _ := strings.Cut(file.Doc.Text(), "\n# "); !strings.Contains(first, "\n\t") {
			t.Errorf("%s: the package comment has no example before its first heading", path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if count < 15 {
		t.Errorf("%d packages, want at least 15: were all found?", count)
	}
}

package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestColumns: no line of Go, in any module of this repository, has more than 120 columns. A
// tab is one.
func TestColumns(t *testing.T) {
	const most = 120
	files := 0
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() && path != ".." && (name == "testdata" || strings.HasPrefix(name, ".")) {
			return fs.SkipDir
		}
		if filepath.Ext(name) != ".go" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files++
		for i, line := range strings.Split(string(text), "\n") {
			if columns := utf8.RuneCountInString(line); columns > most {
				t.Errorf("%s:%d: %d columns, want at most %d", path, i+1, columns, most)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 400 {
		t.Errorf("%d files, want at least 400: were all found?", files)
	}
}

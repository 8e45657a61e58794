package core

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestAlgorithmFiles: only the files of an algorithm depend on its name, by a case, an index or a comparison, so that
// another algorithm needs no case elsewhere.
func TestAlgorithmFiles(t *testing.T) {
	var names, files []string // files may ask
	for _, a := range Algorithms() {
		names = append(names, a.properties().constant)
		for _, dir := range []string{"internal/window", "redisstore/internal/script", "internal/model/statespace"} {
			files = append(files, filepath.Join("../core", dir, a.String()+".go"))
		}
	}
	name := `(` + strings.Join(names, "|") + `)\b`
	asks := func(constant string) *regexp.Regexp {
		const neither = `!\S*(CanLease|IsLinear)\(\).*!\S*(CanLease|IsLinear)\(\)` // so it is the third
		return regexp.MustCompile(`(?m)^[^"/\n]*(case .*\b|[=!]= |\[)` + constant +
			`|^[^"/\n]*\b` + constant + ` [=!]=|` + neither)
	}
	inCore, elsewhere := asks(name), asks(`core\.`+name)
	seen := 0
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && path != ".." {
			_, err := os.Stat(filepath.Join(path, "go.mod"))
			if err == nil || strings.HasPrefix(entry.Name(), ".") { // another module
				return filepath.SkipDir
			}
		}
		if filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") || path == "../core/algorithm.go" {
			return nil
		}
		asking := elsewhere
		if filepath.Dir(path) == "../core" {
			asking = inCore
		}
		source, err := os.ReadFile(path)
		for _, found := range asking.FindAllString(string(source), -1) {
			if seen++; !slices.Contains(files, path) {
				t.Errorf("%s asks for an algorithm by name: %s", path, strings.TrimSpace(found))
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen < len(files) { // each adds itself
		t.Errorf("%d places ask, fewer than the %d files", seen, len(files))
	}
}

// TestUnknownAlgorithm: an algorithm that is not known panics where it is looked up, and is not taken for another one.
func TestUnknownAlgorithm(t *testing.T) {
	unknown := Algorithm(len(Algorithms()))
	defer func() {
		text, _ := recover().(string)
		if name := unknown.String(); name != "Algorithm(4)" || !strings.HasSuffix(text, "unknown algorithm: "+name) {
			t.Errorf("the panic for %s is %q", name, text)
		}
	}()
	unknown.properties()
}

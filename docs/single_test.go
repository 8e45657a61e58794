package docs_test

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestSingle: what make test leaves out of its run with the race detector is found by its run without: each name stands
// in one of the packages of that run, and in no other package of the module.
func TestSingle(t *testing.T) {
	text, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	makefile := strings.ReplaceAll(string(text), "\\\n", " ")
	packages := strings.Fields(variable(t, makefile, "SINGLE_PACKAGES"))
	names := strings.Fields(variable(t, makefile, "SINGLE_TESTS"))
	for _, subtest := range strings.Fields(variable(t, makefile, "SINGLE_SUBTESTS")) {
		name, _, _ := strings.Cut(subtest, "/")
		names = append(names, strings.Trim(name, "^$"))
	}
	folders := foldersOfTests(t)
	for _, name := range names {
		found := slices.Sorted(maps.Keys(folders[name]))
		if len(found) == 0 {
			t.Errorf("SINGLE has %s, and no package has", name)
		}
		for _, folder := range found {
			if !slices.Contains(packages, folder) {
				t.Errorf("SINGLE has %s, which is a test of %s too: it would run nowhere", name, folder)
			}
		}
	}
}

// variable returns what the Makefile sets a variable to.
func variable(t *testing.T, makefile, name string) string {
	t.Helper()
	found := regexp.MustCompile(`(?m)^` + name + ` := (.*)$`).FindStringSubmatch(makefile)
	if found == nil {
		t.Fatalf("the Makefile does not set %s", name)
	}
	return found[1]
}

// foldersOfTests returns the folders of the module that have a test, such as "./core", by its name.
func foldersOfTests(t *testing.T) map[string]map[string]bool {
	t.Helper()
	folders := map[string]map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil && path != ".." {
				return filepath.SkipDir // another module, which make test runs whole
			}
			return nil
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		folder := "." + strings.TrimPrefix(filepath.ToSlash(filepath.Dir(path)), "..")
		for _, test := range declared.FindAllStringSubmatch(string(text), -1) {
			if folders[test[1]] == nil {
				folders[test[1]] = map[string]bool{}
			}
			folders[test[1]][folder] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return folders
}

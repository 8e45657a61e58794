package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	declarations = regexp.MustCompile(`(?m)^(?:func|type|var|const) ([A-Z]\w*)`)
	groups       = regexp.MustCompile(`(?ms)^(?:type|var|const) \($.*?^\)$`)
	inGroups     = regexp.MustCompile(`(?m)^\t([A-Z]\w*)`)
)

// exported returns the exported names of a package of this module, but those of methods.
func exported(t *testing.T, path string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(".." + strings.TrimPrefix(path, "github.com/sashlimit/sash") + "/*.go")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		found := declarations.FindAllSubmatch(text, -1)
		for _, group := range groups.FindAll(text, -1) {
			found = append(found, inGroups.FindAllSubmatch(group, -1)...)
		}
		for _, name := range found {
			names[string(name[1])] = true
		}
	}
	return names
}

// TestNamesInProse: what the pages and the README name of a package of sash, as in
// `core.PerMinute`, is there.
func TestNamesInProse(t *testing.T) {
	named := regexp.MustCompile(`\b([a-z]+[0-9]?)\.([A-Z]\w*)`)
	spans := regexp.MustCompile("`[^`\n]+`")
	byPackage, count := map[string]map[string]bool{}, 0
	for page, text := range pages(t) {
		for _, span := range spans.FindAllString(blocks.ReplaceAllString(text, ""), -1) {
			for _, name := range named.FindAllStringSubmatch(span, -1) {
				path := imports[name[1]]
				if !strings.HasPrefix(path, "github.com/sashlimit/sash/") {
					continue
				}
				if byPackage[path] == nil {
					byPackage[path] = exported(t, path)
				}
				if count++; !byPackage[path][name[2]] {
					t.Errorf("%s: %s names %s, which package %s has not", page, span, name[0], path)
				}
			}
		}
	}
	if count < 100 {
		t.Errorf("%d names, want at least 100: were all found?", count)
	}
}

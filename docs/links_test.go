package docs_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

var (
	links    = regexp.MustCompile(`\]\(([^)\s]+)\)|\b(?:src|srcset|href)="([^"]+)"`)
	fenced   = regexp.MustCompile("(?ms)^```.*?^```$")
	headings = regexp.MustCompile(`(?m)^#+ (.+)$`)
	targets  = regexp.MustCompile(`\]\([^)]*\)`)
)

// prose returns a page without its blocks of code.
func prose(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return fenced.ReplaceAllString(string(text), "")
}

// anchors returns the names by which GitHub lets links lead to the headings of a page.
func anchors(text string) map[string]bool {
	names := map[string]bool{}
	for _, heading := range headings.FindAllStringSubmatch(text, -1) {
		name := strings.Map(func(c rune) rune {
			switch {
			case c == ' ':
				return '-'
			case c == '-' || c == '_' || unicode.IsLetter(c) || unicode.IsDigit(c):
				return unicode.ToLower(c)
			}
			return -1
		}, targets.ReplaceAllString(heading[1], ""))
		unique := name
		for i := 1; names[unique]; i++ {
			unique = fmt.Sprintf("%s-%d", name, i)
		}
		names[unique] = true
	}
	return names
}

// TestLinks: a link in any page of this repository to one of its files leads there, and if
// it names a heading, to the heading.
func TestLinks(t *testing.T) {
	count := 0
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if name := entry.Name(); entry.IsDir() && path != ".." && (name == "testdata" || strings.HasPrefix(name, ".")) {
			return fs.SkipDir
		}
		if err != nil || filepath.Ext(path) != ".md" {
			return err
		}
		for _, link := range links.FindAllStringSubmatch(prose(t, path), -1) {
			target := link[1] + link[2]
			if strings.Contains(target, "://") {
				continue
			}
			count++
			file, anchor, named := strings.Cut(target, "#")
			place := path
			if file != "" {
				place = filepath.Join(filepath.Dir(path), filepath.FromSlash(file))
			}
			if _, err := os.Stat(place); err != nil {
				t.Errorf("%s: %v", path, err)
			} else if named && !anchors(prose(t, place))[anchor] {
				t.Errorf("%s: the link %s leads to no heading", path, target)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if count < 150 {
		t.Errorf("%d links, want at least 150: were all found?", count)
	}
}

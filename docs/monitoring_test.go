package docs_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/internal/notice"
)

// TestNotices: every code of a notice has a paragraph, every paragraph is about a code, and every code can be turned
// off.
func TestNotices(t *testing.T) {
	text, err := os.ReadFile("monitoring.md")
	if err != nil {
		t.Fatal(err)
	}
	paragraphs := map[string]string{}
	for _, section := range strings.Split(string(text), "\n### ") {
		if heading := regexp.MustCompile("^`(.+)`\n").FindStringSubmatch(section); heading != nil {
			paragraphs[heading[1]] = section
		}
	}
	for _, code := range notice.Codes {
		if paragraphs[code] == "" {
			t.Errorf("no paragraph is about %q", code)
		}
		_, err := core.New(core.Config{
			Store: memstore.New(), Limits: []core.Limit{core.PerMinute(1)}, Quiet: []string{code},
		})
		if err != nil {
			t.Errorf("quiet about %q: %v", code, err)
		}
	}
	for code := range paragraphs {
		if !slices.Contains(notice.Codes, code) {
			t.Errorf("a paragraph is about %q, which is no code", code)
		}
	}
}

package grafana_test

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"testing"
)

// TestRules: promtool finds nothing wrong with the alerts, and their own tests pass.
func TestRules(t *testing.T) {
	promtool := needed(t, "promtool")
	for _, args := range [][]string{
		{"check", "rules", "--lint=all", "--lint-fatal", "alerts.yml"},
		{"test", "rules", "alerts_test.yml"},
	} {
		if out, err := exec.Command(promtool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %q: %v\n%s", args, err, out)
		}
	}
}

// TestReadme: the README lists the alerts that there are.
func TestReadme(t *testing.T) {
	find := func(path, line string) []string {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, match := range regexp.MustCompile(line).FindAllSubmatch(text, -1) {
			names = append(names, string(match[1]))
		}
		return names
	}
	want := find("alerts.yml", `(?m)^ +- alert: (\w+)$`)
	if got := find("README.md", "(?m)^\\| `(\\w+)` \\|"); !slices.Equal(got, want) || len(want) == 0 {
		t.Errorf("README.md lists %q, want %q", got, want)
	}
}

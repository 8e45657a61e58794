package grafana_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// promtool runs a command of Debian's package prometheus. Without it the test fails: a suite that skips proves nothing.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	path, err := exec.LookPath("promtool")
	if err != nil {
		t.Fatalf("%v: install Debian's package prometheus, or run make test-metrics, which does", err)
	}
	if out, err := exec.Command(path, args...).CombinedOutput(); err != nil {
		t.Errorf("promtool %q: %v\n%s", args, err, out)
	}
}

// read returns the text of a file.
func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// found returns the first group of each match of an expression in a text.
func found(text, expression string) (all []string) {
	for _, match := range regexp.MustCompile(expression).FindAllStringSubmatch(text, -1) {
		all = append(all, match[1])
	}
	return all
}

// TestRules: promtool finds nothing wrong with the alerts, and their own tests pass. In these each alert fires, and
// none is left in the end. An alert says what to do.
func TestRules(t *testing.T) {
	promtool(t, "check", "rules", "--lint=all", "--lint-fatal", "alerts.yml")
	promtool(t, "test", "rules", "alerts_test.yml")
	alerts, tests := read(t, "alerts.yml"), read(t, "alerts_test.yml")
	names := found(alerts, `(?m)^ +- alert: (\w+)$`)
	for _, name := range names {
		if !strings.Contains(tests, `alertname="`+name+`"`) {
			t.Errorf("got no test of %s in alerts_test.yml, want one in which it fires", name)
		}
	}
	for _, field := range []string{"summary", "description", "runbook"} {
		if n := len(found(alerts, `(?m)^ +(`+field+`): \S`)); n != len(names) {
			t.Errorf("got %d alerts with a %s, want all %d", n, field, len(names))
		}
	}
}

// TestReadme: the README lists the alerts that there are.
func TestReadme(t *testing.T) {
	want := found(read(t, "alerts.yml"), `(?m)^ +- alert: (\w+)$`)
	if got := found(read(t, "README.md"), "(?m)^\\| `(\\w+)` \\|"); !slices.Equal(got, want) || len(want) == 0 {
		t.Errorf("got the alerts %q in README.md, want %q", got, want)
	}
}

// TestQueries: Prometheus can read each query of the dashboard, and all metrics in them and in the alerts have the
// labels that are asked for, by the list of package sashprom, which its tests hold to the metrics that there are.
func TestQueries(t *testing.T) {
	labels := map[string][]string{}
	for _, line := range found(read(t, "../sashprom/doc.go"), `(?m)^//\t(sash_\w+\{[^}]+\}) `) {
		name, list, _ := strings.Cut(strings.TrimSuffix(line, "}"), "{")
		labels[name] = append(strings.Split(list, ", "), "le", "instance")
	}
	d := readDashboard(t)
	var rules bytes.Buffer
	rules.WriteString("groups:\n- name: dashboard\n  rules:\n")
	queries := found(read(t, "alerts.yml"), `(?s)expr: (.+?)\n +(?:for|labels|- alert):`)
	for _, p := range d.Panels {
		for _, q := range p.Targets {
			queries = append(queries, q.Expr)
			fmt.Fprintf(&rules, "  - record: query:number%d\n    expr: %q\n", len(queries), d.substitute(q.Expr, "5m"))
		}
	}
	for _, v := range d.Templating.List {
		queries = append(queries, v.Definition)
	}
	file := filepath.Join(t.TempDir(), "rules.yml")
	if err := os.WriteFile(file, rules.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, "check", "rules", file)
	asked := map[string]bool{}
	for _, q := range queries {
		var inQuery []string
		for _, name := range found(q, `(?:^|[^:\w])(sash_\w+)`) {
			name = strings.TrimSuffix(name, "_bucket")
			if asked[name] = true; labels[name] == nil {
				t.Errorf("%s: got the metric %s, want one that sashprom has", q, name)
			}
			inQuery = append(inQuery, labels[name]...)
		}
		for _, label := range regexp.MustCompile(`[\w]+`).FindAllString(strings.Join(append(
			found(q, `(?:by|without) \(([^)]*)\)`), found(q, `(\w+)=`)...), " "), -1) {
			if label != "__name__" && !slices.Contains(inQuery, label) {
				t.Errorf("%s: got the label %s, want one of %q", q, label, inQuery)
			}
		}
	}
	if len(asked) < 25 {
		t.Errorf("got %d metrics in all queries, want at least 25", len(asked))
	}
}

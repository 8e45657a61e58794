//go:build !race && !short

package script

import (
	"strings"
	"testing"
	"text/template"
	"time"

	"github.com/sashlimit/sash/core"
)

// TestTemplate compares the scripts with those of the package text/template, for all combinations of 1 to 5 limits of
// all algorithms, with windows of which all, some or none stand in the script, with and without a lease.
func TestTemplate(t *testing.T) {
	files := template.New("")
	for file, text := range texts() {
		template.Must(files.New(file).Parse(text))
	}
	execute := func(name string, data any) string {
		var lua strings.Builder
		if err := files.ExecuteTemplate(&lua, name, data); err != nil {
			t.Fatal(err)
		}
		return lua.String()
	}
	part := func(name string, own variables) string {
		if files.Lookup(name) == nil {
			return ""
		}
		return execute(name, own)
	}
	check := func(limits []core.Limit, lease bool) {
		t.Helper()
		rule, all := ruleVariables(lease, limits, part)
		data := map[string]any{"Limits": all}
		for name, value := range rule {
			data[name] = value
		}
		want := compact(execute("decide", data))
		if got := decideSource(lease, limits); got != want {
			t.Fatalf("%v, lease %v:\n got %s\nwant %s", limits, lease, got, want)
		}
	}
	for _, windows := range [][]time.Duration{
		{time.Second, time.Minute, time.Hour, 24 * time.Hour, time.Minute},
		{time.Second, time.Minute, 90 * time.Second, 24 * time.Hour, time.Hour},
		{core.MinWindow, 2 * time.Hour, core.MaxWindow, 24 * time.Hour, time.Second},
	} {
		var limits []core.Limit
		var choose func()
		choose = func() {
			if len(limits) > 0 {
				check(limits, false)
				check(limits, true)
			}
			if len(limits) == len(windows) {
				return
			}
			for _, a := range core.Algorithms() {
				limits = append(limits, core.Per(10, windows[len(limits)]).Using(a))
				choose()
				limits = limits[:len(limits)-1]
			}
		}
		choose()
	}
}

// TestScriptsFew: however clients choose the windows of a rule, they lead to few scripts.
func TestScriptsFew(t *testing.T) {
	windows := []time.Duration{
		time.Second, time.Minute, time.Hour, 24 * time.Hour, time.Millisecond, 90 * time.Second, core.MaxWindow,
	}
	for n, want := range map[int]int{1: 5, 2: 17, 3: 65, 4: 257, 5: 1} {
		limits, sources := make([]core.Limit, n), map[string]string{} // the script of each shape
		var choose func(i int)
		choose = func(i int) {
			if i < n {
				for _, w := range windows {
					limits[i] = core.Per(int64(len(sources)+1), w).Using(core.Algorithms()[i%len(core.Algorithms())])
					choose(i + 1)
				}
				return
			}
			shape := Shape(false, limits)
			if _, known := sources[shape]; !known {
				sources[shape] = decideSource(false, limits)
			}
		}
		choose(0)
		different := map[string]bool{}
		for _, source := range sources {
			different[source] = true
		}
		if len(sources) != want || len(different) != want {
			t.Errorf("%d limits lead to %d shapes and %d scripts, want %d", n, len(sources), len(different), want)
		}
	}
}

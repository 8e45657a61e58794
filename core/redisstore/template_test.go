package redisstore

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
	decide := template.Must(template.New("decide").Parse(decideText))
	check := func(limits []core.Limit, lease bool) {
		t.Helper()
		rule, all := ruleVariables(lease, limits)
		data := map[string]any{"Limits": all}
		for name, value := range rule {
			data[name] = value
		}
		var want strings.Builder
		if err := decide.Execute(&want, data); err != nil {
			t.Fatal(err)
		}
		if got := decideSource(lease, limits); got != compact(want.String()) {
			t.Fatalf("%v, lease %v:\n got %s\nwant %s", limits, lease, got, compact(want.String()))
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
			for _, a := range algorithms() {
				limits = append(limits, core.Per(10, windows[len(limits)]).Using(a))
				choose()
				limits = limits[:len(limits)-1]
			}
		}
		choose()
	}
}

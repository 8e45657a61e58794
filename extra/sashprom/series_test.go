package sashprom_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/extra/sashprom"
)

// TestHostileLabels: a program that gives paths as labels, and makes a rule for each
// tenant, gets a bounded number of series, and no decision is lost.
func TestHostileLabels(t *testing.T) {
	const decisions, bound, outcomes = 5000, 2000, 12
	for _, test := range []struct {
		name  string
		event func(i int) core.Event
		other string // the labels of the series that has the rest
	}{
		{"paths as labels", func(i int) core.Event {
			return core.Event{Name: "api", Label: fmt.Sprintf("/a/%d/%s", i, strings.Repeat("x", i))}
		}, `limiter="api",outcome="refused",route="other",rule=""`},
		{"a rule for each tenant", func(i int) core.Event {
			return core.Event{Name: "api", Rule: fmt.Sprint("tenant", i), Label: "GET /"}
		}, `limiter="other",outcome="refused",route="other",rule="other"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := sashprom.New(sashprom.ByRoute())
			for i := range decisions {
				e := test.event(i)
				e.Key, e.Decision.Source = "k", core.Counted
				m.Observe(t.Context(), e)
			}
			lines := samples(scrape(t, m), "sash_decisions_total")
			if len(lines) > bound*outcomes {
				t.Errorf("%d series, want at most %d", len(lines), bound*outcomes)
			}
			total, other := 0, 0
			for _, line := range lines {
				var n int
				if _, err := fmt.Sscan(line[strings.LastIndexByte(line, ' '):], &n); err != nil {
					t.Fatal(err)
				}
				total += n
				if strings.Contains(line, test.other) {
					other += n
				}
				if len(line) > 500 {
					t.Errorf("a line of %d bytes: %.100s...", len(line), line)
				}
			}
			if total != decisions || other < decisions-bound {
				t.Errorf("counted %d, of which %d with %s; want %d and at least %d",
					total, other, test.other, decisions, decisions-bound)
			}
		})
	}
}

// TestUglyLabels: what Prometheus would refuse is replaced. Labels that become the same
// are one series, so that a scrape does not fail.
func TestUglyLabels(t *testing.T) {
	m := sashprom.New(sashprom.ByRoute())
	long := strings.Repeat("é", 200)
	for _, label := range []string{"\xff", "\xfe", "\x00\"\n\\", "{}", long, long + "x"} {
		e := decided(core.Counted, true, nil)
		e.Label = label
		m.For("\xff").Observe(t.Context(), e)
	}
	scraped := scrape(t, m)
	for _, route := range []string{`\ufffd` + `" 2`, `\x00\"\n\\" 1`, `{}" 1`, strings.Repeat("é", 128) + `" 2`} {
		route, n, _ := strings.Cut(route, `" `)
		route = strings.NewReplacer(`\ufffd`, "\uFFFD", `\x00`, "\x00").Replace(route)
		wantLines(t, scraped, `sash_decisions_total{allowed="true",limiter="api",outcome="admitted",route="`+
			route+`",rule="login"} `+n)
	}
}

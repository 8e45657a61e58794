package sashprom_test

import (
	"strings"
	"testing"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/extra/sashprom"
)

// TestUglyLabels: what Prometheus would refuse is replaced. Labels that become the same
// are one series, so that a scrape does not fail.
func TestUglyLabels(t *testing.T) {
	m := core.Must(sashprom.New(sashprom.ByRoute()))
	long := strings.Repeat("é", 200)
	for _, label := range []string{"\xff", "\xfe", "\x00\"\n\\", "{}", long, long + "x"} {
		e := decided(core.SourceCounted, true, nil)
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

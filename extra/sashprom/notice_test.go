package sashprom_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/extra/sashprom"
)

// TestNotices: what a limiter and its rules notice is counted by code, also through
// core.Observers.
func TestNotices(t *testing.T) {
	m := sashprom.New()
	limiter, err := core.New(core.Config{
		Name: "api", Store: memstore.New(), Limits: []core.Limit{core.PerHour(1_000_000)},
		Observer: core.Observers(core.Silent, m.For("memory")),
	})
	if err != nil {
		t.Fatal(err)
	}
	login := core.Must(limiter.Rule("login", core.PerHour(1_000_000)))
	for range 3 { // a limiter tells each code once
		limiter.Allow(t.Context(), "k")
		login.Allow(t.Context(), "k")
	}
	m.Notice(t.Context(), core.Notice{Name: "api", Code: core.NoticeLargeLog})
	scraped := scrape(t, m)
	wantLines(t, scraped,
		`sash_notices_total{code="large-log",limiter="api",rule=""} 2`,
		`sash_notices_total{code="large-log",limiter="api",rule="login"} 1`)
	if got := samples(scraped, "sash_notices_total"); len(got) != 2 {
		t.Errorf("notices %q, want two", got)
	}
}

// TestManyNotices: a program that makes limiters and codes without end gets a bounded
// number of series, and no notice is lost.
func TestManyNotices(t *testing.T) {
	const notices, bound = 1500, 1000
	m := sashprom.New()
	for i := range notices {
		m.Notice(t.Context(), core.Notice{Name: fmt.Sprintf("\xff%d", i), Code: strings.Repeat("x", 1000)})
	}
	scraped := scrape(t, m)
	wantLines(t, scraped,
		fmt.Sprintf(`sash_notices_total{code="other",limiter="other",rule="other"} %d`, notices-bound))
	lines := samples(scraped, "sash_notices_total")
	if len(lines) != bound+1 {
		t.Errorf("%d series, want %d", len(lines), bound+1)
	}
	for _, line := range lines {
		if len(line) > 500 {
			t.Fatalf("a line of %d bytes: %.100s...", len(line), line)
		}
	}
}

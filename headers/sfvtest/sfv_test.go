// Package sfvtest parses what headers.IETF writes with a structured-field
// parser (RFC 9651) that is not ours. It is a module of its own, so that the
// parser reaches no user of sash.
package sfvtest

import (
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/headers"
)

// items are the members of a list as the parser sees them.
func items(t *testing.T, h http.Header, field string) []httpsfv.Item {
	t.Helper()
	list, err := httpsfv.UnmarshalList(h.Values(field))
	if err != nil {
		t.Fatalf("%s: %q: %v", field, h.Values(field), err)
	}
	items := make([]httpsfv.Item, len(list))
	for i, member := range list {
		item, ok := member.(httpsfv.Item)
		if !ok {
			t.Fatalf("%s: %q: member %d is no item", field, h.Values(field), i)
		}
		items[i] = item
	}
	return items
}

func parameter(i httpsfv.Item, name string) any {
	v, _ := i.Params.Get(name)
	return v
}

// TestIETFParses writes and parses fields for random limits with every
// character that a name may hold, and for the largest numbers.
func TestIETFParses(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	name := func(i int) string {
		b := []byte{byte('a' + i)}
		for range rng.IntN(60) {
			if c := byte(' ' + rng.IntN('~'-' '+1)); c != '"' && c != '\\' {
				b = append(b, c)
			}
		}
		return strings.TrimSpace(string(b)) // a name ends with no blank
	}
	for range 500 {
		limits := make([]core.Limit, 1+rng.IntN(4))
		for i := range limits {
			window := time.Duration(1+rng.Int64N(366*24*3600*1000)) * time.Millisecond
			limits[i] = core.Per(1+rng.Int64N(core.MaxCounterRequests), window).Named(name(i)).Using(core.SlidingCounter)
			if rng.IntN(2) == 0 {
				limits[i].Window = core.MaxWindow
			}
		}
		l, err := core.New(core.Config{Store: memstore.New(), Limits: limits})
		if err != nil {
			t.Fatal(err)
		}
		d := core.Decision{
			Allowed: true, Limit: limits[rng.IntN(len(limits))],
			Remaining:  rng.Int64N(core.MaxCounterRequests),
			ResetAfter: time.Duration(rng.Int64N(int64(core.MaxWindow))),
		}
		wantT := any(int64((d.ResetAfter + time.Second - 1) / time.Second))
		switch rng.IntN(3) {
		case 0:
			d.Allowed, d.RetryAfter = false, 1+time.Duration(rng.Int64N(int64(2*core.MaxWindow)))
			seconds, _ := headers.RetryAfter(d)
			wantT = seconds
		case 1:
			d.Allowed, d.RetryAfter = false, core.Never
			wantT = nil
		}
		h := http.Header{}
		headers.IETF.Write(h, l.Limits(), d)

		policies := items(t, h, "RateLimit-Policy")
		if len(policies) != len(limits) {
			t.Fatalf("%d policies for %d limits: %q", len(policies), len(limits), h)
		}
		for i, p := range policies {
			var w any
			if limits[i].Window%time.Second == 0 {
				w = int64(limits[i].Window / time.Second)
			}
			if p.Value != limits[i].Name || parameter(p, "q") != limits[i].Requests || parameter(p, "w") != w {
				t.Errorf("policy %d is %q of %v", i, h["Ratelimit-Policy"], limits[i])
			}
		}
		state := items(t, h, "RateLimit")
		if len(state) != 1 || state[0].Value != d.Limit.Name ||
			parameter(state[0], "r") != d.Remaining || parameter(state[0], "t") != wantT {
			t.Errorf("state %q of %+v", h["Ratelimit"], d)
		}
	}
}

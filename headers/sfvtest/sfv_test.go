// Package sfvtest parses what headers.IETF writes with a structured-field
// parser (RFC 9651) that is not ours. It is a module of its own, so that the
// parser reaches no user of sash.
package sfvtest

import (
	"net/http"
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

// TestIETFParses writes and parses fields of limits with each character that a name may hold, and of the largest
// numbers. TestFormats of headers has the fields of each kind of decision.
func TestIETFParses(t *testing.T) {
	for c := ' '; c <= '~'; c++ {
		if c == '"' || c == '\\' {
			continue // core.New refuses them
		}
		large := core.Per(core.MaxCounterRequests, core.MaxWindow).Using(core.SlidingCounter)
		large = large.Named("a" + string(c) + "b")
		limits := []core.Limit{core.PerSecond(1).Named("second"), large}
		if _, err := core.New(core.Config{Store: memstore.New(), Limits: limits}); err != nil {
			t.Fatal(err)
		}
		h := http.Header{}
		headers.IETF.Write(h, limits, core.Decision{
			Allowed: true, Limit: large, Remaining: core.MaxCounterRequests, ResetAfter: core.MaxWindow,
		})
		seconds := int64(core.MaxWindow / time.Second)
		policies := items(t, h, "RateLimit-Policy")
		if len(policies) != 2 || policies[0].Value != "second" || policies[1].Value != large.Name ||
			parameter(policies[1], "q") != large.Requests || parameter(policies[1], "w") != seconds {
			t.Errorf("got the policies %q of %v", h["Ratelimit-Policy"], limits)
		}
		state := items(t, h, "RateLimit")
		if len(state) != 1 || state[0].Value != large.Name ||
			parameter(state[0], "r") != large.Requests || parameter(state[0], "t") != seconds {
			t.Errorf("got the state %q of %v", h["Ratelimit"], large)
		}
	}
}

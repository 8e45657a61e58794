package memstore_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
)

// TestRulesAreCountedInFull: Bytes holds at least what the heap does, also when a map
// or a list has just grown. The rules differ in their Requests alone.
func TestRulesAreCountedInFull(t *testing.T) {
	// Of few rules there are many stores: what else the process allocates meanwhile is
	// little beside them.
	for _, c := range []struct{ stores, rules int }{{100, 60}, {1, 7200}, {1, 60_000}} {
		stores := make([]*memstore.Store, c.stores)
		for i := range stores {
			stores[i] = memstore.New()
		}
		bytes := func() (sum int64) {
			for _, s := range stores {
				sum += s.Stats().Bytes
			}
			return sum
		}
		before, heapBefore := bytes(), heap()
		for _, s := range stores {
			for i := range c.rules {
				limit := core.Per(int64(1+i), time.Hour).Named("hour")
				if _, err := s.Bind(core.Binding{Rule: "tenant", Limits: []core.Limit{limit}}); err != nil {
					t.Fatalf("rule %d: %v", i, err)
				}
			}
		}
		if grown, said := heap()-heapBefore, bytes()-before; grown > said {
			t.Errorf("%d stores with %d rules: the heap grew by %d bytes, Bytes by %d", c.stores, c.rules, grown, said)
		}
		runtime.KeepAlive(stores)
	}
}

// TestTooManyRules: rules may take a quarter of a store; then Bind says what to
// do, and the rules that were bound go on.
func TestTooManyRules(t *testing.T) {
	s := memstore.New(memstore.WithMaxBytes(memstore.MinMaxBytes))
	first := limiter(t, s, core.PerMinute(1))
	var err error
	bound := 0
	for ; err == nil && bound < 10_000; bound++ {
		_, err = first.Rule(key("rule ", bound), core.PerMinute(1))
	}
	if err == nil || !strings.Contains(err.Error(), "rules may take a quarter") {
		t.Fatalf("after %d rules: %v, want an error that says how much rules may take", bound, err)
	}
	says := fmt.Sprintf("already holds %d limits, which take %d of 65536 bytes", bound, 64*bound+160)
	if !strings.Contains(err.Error(), says) {
		t.Errorf("got %q, want it to say %q", err, says)
	}
	if bound != 1+(16384-64-160)/64 || s.Stats().Bytes > memstore.MinMaxBytes/2 {
		t.Errorf("%d rules take %d of %d bytes", bound, s.Stats().Bytes, memstore.MinMaxBytes)
	}
	const fit = 100 // of 64 and 160 bytes
	exact := memstore.New(memstore.WithMaxBytes(fit * (64 + 160) * 4))
	for i := range int64(fit + 1) {
		limit := core.Per(1+i, time.Hour).Named(key("limit ", int(i)))
		if _, err := exact.Bind(core.Binding{Limits: []core.Limit{limit}}); (err != nil) != (i == fit) {
			t.Errorf("rule %d, where %d fit: %v", i+1, fit, err)
		}
	}
	if d := first.Allow(ctx, "k"); !d.Allowed {
		t.Errorf("a rule that was bound before: %+v", d)
	}
	before := s.Stats().Bytes
	if _, err := first.Rule(key("rule ", 7), core.PerMinute(1)); err != nil || s.Stats().Bytes != before {
		t.Errorf("a known rule: got %v and %d bytes, want %d as before", err, s.Stats().Bytes, before)
	}
}

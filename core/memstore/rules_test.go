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
	const fit, size = 400, 200 * (64 + 64 + 160) * 4 // a limit takes 64 bytes, and 160 for each Requests
	s := memstore.New(memstore.WithMaxBytes(size))
	first := limiter(t, s, core.PerMinute(1))
	rule := func(n int) error {
		_, err := first.Rule(key("rule ", n), core.PerMinute(1+int64(n/2)))
		return err
	}
	for n := 1; n < fit; n++ {
		if err := rule(n); err != nil {
			t.Fatalf("rule %d, where %d fit: %v", n, fit, err)
		}
	}
	says := fmt.Sprintf("holds %d limits, which take %d of %d bytes, and rules may take a quarter", fit, size/4, size)
	if err := rule(fit); err == nil || !strings.Contains(err.Error(), says) {
		t.Errorf("got %v, want it to say %q", err, says)
	}
	if d := first.Allow(ctx, "k"); !d.Allowed {
		t.Errorf("a rule that was bound before: %+v", d)
	}
	before := s.Stats().Bytes
	if err := rule(7); err != nil || s.Stats().Bytes != before {
		t.Errorf("a known rule: got %v and %d bytes, want %d as before", err, s.Stats().Bytes, before)
	}
}

package memstore_test

import (
	"context"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/core/storetest"
)

func TestConformance(t *testing.T) {
	storetest.Run(t, func(*testing.T) core.Store { return memstore.New() })
}

// TestStoreNotMadeByNew: a Store that New did not make is an error of core.New
// that says so.
func TestStoreNotMadeByNew(t *testing.T) {
	for name, s := range map[string]*memstore.Store{"nil": nil, "the zero value": {}, "new(Store)": new(memstore.Store)} {
		if n, stats := s.Bytes(), s.Stats(); n != 0 || stats != (memstore.Stats{}) {
			t.Errorf("%s: got %d bytes and %+v, want nothing", name, n, stats)
		}
		if _, err := s.Bind(core.Binding{}); err == nil || !strings.Contains(err.Error(), "memstore.New") {
			t.Errorf("%s: Bind returned %v, want an error that names memstore.New", name, err)
		}
		_, err := core.New(core.Config{Store: s, Limits: []core.Limit{core.PerMinute(1)}})
		if err == nil || !strings.Contains(err.Error(), "memstore.New") {
			t.Errorf("%s: core.New returned %v, want an error that names memstore.New", name, err)
		}
	}
}

// TestResetAfterTimeout: the limiter's timeout does not stop a Reset: another store may have
// used it up.
func TestResetAfterTimeout(t *testing.T) {
	s := memstore.New()
	counts, err := s.Bind(core.Binding{Limits: []core.Limit{core.PerDay(1).Named("day")}})
	if err != nil {
		t.Fatal(err)
	}
	late, cancel := context.WithTimeoutCause(ctx, 0, core.ErrTimeout)
	defer cancel()
	for range 2 {
		if d, err := counts.Take(ctx, core.Ask{Key: "k", Cost: 1}); err != nil || !d.Allowed {
			t.Errorf("got %+v, %v, want an admission", d, err)
		}
		if err := counts.Reset(late, "k"); err != nil {
			t.Errorf("got %v from a late Reset, want nil", err)
		}
	}
}

// TestTimeOfTheMachine: without another clock, a decision is as of the time of the machine.
func TestTimeOfTheMachine(t *testing.T) {
	d := limiter(t, memstore.New(), core.PerDay(1)).Allow(ctx, "k")
	if off := time.Since(d.At).Abs(); off > time.Hour {
		t.Errorf("decided as of %v, off by %v", d.At, off)
	}
}

// TestConformanceInAFullStore runs the suite in stores of several sizes whose
// slots are all taken, by clients that have used little of their limits.
func TestConformanceInAFullStore(t *testing.T) {
	for _, size := range []int{memstore.MinMaxBytes, small, 1 << 20} {
		t.Run(strconv.Itoa(size), func(t *testing.T) {
			t.Parallel()
			storetest.Run(t, func(t *testing.T) core.Store {
				s := memstore.New(memstore.WithMaxBytes(int64(size)))
				crowd := limiter(t, s, core.Per(1_000_000, 25*time.Hour).Using(core.SlidingCounter))
				for range 2 {
					for i := range 2 * fits(size) {
						crowd.Allow(ctx, key("crowd ", i))
					}
				}
				return s
			})
		})
	}
}

// TestHonest: Bytes is what the heap says, but for a little.
func TestHonest(t *testing.T) {
	for requests, limit := range map[int]core.Limit{
		1: core.PerDay(100).Using(core.SlidingCounter), 10: core.PerDay(100), 300: core.PerDay(1000),
	} {
		before := heap()
		s := memstore.New()
		l := limiter(t, s, limit)
		for k := range 40_000 / requests {
			for range requests {
				l.Allow(ctx, key("k", k))
			}
		}
		grown, says := heap()-before, s.Bytes()
		if grown > says+says/50+64<<10 || grown < says*3/4 {
			t.Errorf("%d requests of each by %v: the heap got %d bytes, want what Bytes says, %d", requests, limit, grown, says)
		}
		runtime.KeepAlive(s)
	}
}

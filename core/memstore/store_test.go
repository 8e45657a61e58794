package memstore_test

import (
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
	for name, s := range map[string]*memstore.Store{"nil": nil, "the zero value": {}} {
		if stats := s.Stats(); stats != (memstore.Stats{}) {
			t.Errorf("%s: got %+v, want nothing", name, stats)
		}
		_, err := core.New(core.Config{Store: s, Limits: []core.Limit{core.PerMinute(1)}})
		if err == nil || !strings.Contains(err.Error(), "memstore.New") {
			t.Errorf("%s: core.New returned %v, want an error that names memstore.New", name, err)
		}
	}
}

// TestConformanceInAFullStore runs the suite in a store whose slots are all taken, by clients that have used little of
// their limits.
func TestConformanceInAFullStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) core.Store {
		s := memstore.New(memstore.WithMaxBytes(memstore.MinMaxBytes))
		crowd := limiter(t, s, core.Per(1_000_000, 25*time.Hour).Using(core.SlidingCounter))
		for range 2 {
			for i := range 2 * fits(memstore.MinMaxBytes) {
				crowd.Allow(ctx, key("crowd ", i))
			}
		}
		return s
	})
}

// TestBytesOfClients: a client under a limit takes 60 to 100 bytes, of a CoarseLog 512 more once two slots are in use,
// and the first ones up to 370.
func TestBytesOfClients(t *testing.T) {
	for _, a := range algorithms {
		for _, clients := range []int64{1, 1000, 10_000, 50_000} {
			s, c := newStore(memstore.DefaultMaxBytes)
			l, empty := limiter(t, s, core.PerHour(1000).Using(a)), s.Stats().Bytes
			each := int64(60)
			for range 2 { // slots
				for i := range clients {
					l.Allow(ctx, key("k", int(i)))
				}
				if a == core.SlidingLog {
					break
				}
				c.Add(time.Minute)
			}
			if a == core.CoarseLog {
				each += 512
			}
			least, most := clients*each, clients*(each+40)+min(clients, 256)*270
			if got := s.Stats().Bytes - empty; got < least || got > most {
				t.Errorf("%v: %d clients take %d bytes, want %d to %d", a, clients, got, least, most)
			}
		}
	}
}

// TestUnknownAlgorithm: a rule that no Limiter has checked is an error, and is not
// counted by another algorithm.
func TestUnknownAlgorithm(t *testing.T) {
	unknown := core.Algorithm(len(core.Algorithms()))
	limits := []core.Limit{core.PerMinute(1).Named("minute").Using(unknown)}
	counts, err := memstore.New().Bind(core.Binding{Limits: limits})
	if counts != nil || err == nil || !strings.Contains(err.Error(), `algorithm of limit 1/1m `) {
		t.Errorf("Bind returned %v and %v, want an error that names the limit", counts, err)
	}
}

func TestOptionErrors(t *testing.T) {
	for _, c := range []struct {
		option memstore.Option
		says   []string
	}{
		{memstore.WithMaxBytes(memstore.MinMaxBytes - 1), []string{"WithMaxBytes(65535)", "65536", "64 KiB"}},
		{memstore.WithMaxBytes(512<<30 + 1), []string{"WithMaxBytes(549755813889)", "549755813888", "512 GiB"}},
		{memstore.WithClock(nil), []string{"WithClock(nil)", "time.Now"}},
		{nil, []string{"option 1 of memstore is nil"}},
	} {
		s := memstore.New(c.option, memstore.WithMaxBytes(1<<20))
		_, err := core.New(core.Config{Store: s, Limits: []core.Limit{core.PerMinute(1)}})
		for _, say := range c.says {
			if err == nil || !strings.Contains(err.Error(), say) {
				t.Errorf("got the error %v, which does not say %q", err, say)
			}
		}
	}
	for _, n := range []int64{memstore.MinMaxBytes, 512 << 30} {
		s := memstore.New(memstore.WithMaxBytes(n))
		if d := limiter(t, s, core.PerMinute(1)).Allow(ctx, "k"); !d.Allowed || s.Stats().Bytes > n {
			t.Errorf("%d bytes: %+v", n, d)
		}
	}
}

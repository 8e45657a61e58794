package regions

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/core/redisstore"
	"github.com/sashlimit/sash/core/storetest"
	"github.com/sashlimit/sash/internal/redistest"
)

// three returns the stores of three regions.
func three() map[string]core.Store {
	return map[string]core.Store{"ap": memstore.New(), "eu": memstore.New(), "us": memstore.New()}
}

// fixture has three regions in memory, which may be down or silent.
type fixture struct {
	stores map[string]core.Store
	down   map[string]error
	silent map[string]bool
	notice string
}

func newFixture() *fixture {
	s := &fixture{stores: three(), down: map[string]error{}, silent: map[string]bool{}}
	for name, store := range s.stores {
		s.stores[name] = storetest.Wrap(store, func(ctx context.Context, call storetest.Call) (core.Decision, error) {
			if s.silent[name] {
				ctx, cancel := call.Ask.Context(ctx)
				defer cancel()
				<-ctx.Done()
				return core.Decision{}, context.Cause(ctx)
			}
			if err := s.down[name]; err != nil {
				return core.Decision{}, err
			}
			return call.Next(ctx)
		})
	}
	return s
}

// limiter returns a limiter of a region.
func (s *fixture) limiter(c Config, limits ...core.Limit) *core.Limiter {
	c.Stores = s.stores
	return core.Must(core.New(core.Config{
		Name: "api", Store: core.Must(New(c)), Limits: limits, OnStoreError: core.FailClosed, Timeout: time.Second,
		Observer: observer{&s.notice},
	}))
}

// admitted returns how many of n requests at once are admitted.
func admitted(t *testing.T, l *core.Limiter, key string, n int) (admitted int) {
	t.Helper()
	for range n {
		if d := l.Allow(t.Context(), key); d.Allowed {
			admitted++
		}
	}
	return admitted
}

// observer keeps the code of the latest notice.
type observer struct{ code *string }

func (observer) Observe(context.Context, core.Event) {}

func (o observer) Notice(_ context.Context, n core.Notice) { *o.code = n.Code }

// bucketsAt is a store that has the home of clients under rules with a bucket, which are always strict.
type bucketsAt struct{ home, any core.Store }

func (s bucketsAt) Bind(by core.Binding) (core.Ledger, error) {
	if slices.ContainsFunc(by.Limits, func(l core.Limit) bool { return l.Algorithm.IsLinear() }) {
		return s.home.Bind(by)
	}
	return s.any.Bind(by)
}

// TestBucketIsStrict: whatever the Config says, all regions together admit the limit of a bucket at once, and what
// comes back of it since.
func TestBucketIsStrict(t *testing.T) {
	stores := three()
	total := 0
	for _, local := range []string{"ap", "eu", "us"} {
		l := core.Must(core.New(core.Config{Name: "api", Store: core.Must(New(Config{Local: local, Stores: stores})),
			Limits: []core.Limit{core.RateAndBurst(1, time.Hour, 10)}, OnStoreError: core.FailClosed}))
		total += admitted(t, l, "k", 9)
		if uses, err := l.Usage(t.Context(), "k"); err != nil || uses[0].ResetAfter <= 9*time.Hour {
			t.Errorf("%s: %+v, %v, want all back in 10 h", local, uses, err)
		}
	}
	if total != 10 {
		t.Errorf("%d were admitted, want 10", total)
	}
}

// TestConformance: the regions are a store to the letter where the client's home has all of its limits. Without one,
// while the others are idle, eventual regions are too but for two subtests: of several limits, a share may bind that
// is of another limit than the one with the least left, and on a busy machine a poll comes too late for many at once.
// Where the home is another region, each has a server of its own.
func TestConformance(t *testing.T) {
	at := func(home string) func(string) string { return func(string) string { return home } }
	shares := []string{"Concurrency", "Histories"}
	servers := map[string]core.Store{}
	for name := range three() {
		servers[name] = redisstore.New(redistest.Start(t).Client(t))
	}
	for name, c := range map[string]Config{
		"strict":                {Local: "eu", Stores: three(), Strict: true, Home: at("eu")},
		"strict away from home": {Local: "eu", Stores: servers, Strict: true, Home: at("ap")},
		"eventual":              {Local: "eu", Stores: three()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Run(t, func(t *testing.T) core.Store {
				own := c
				if _, subtest, _ := strings.Cut(t.Name(), "/eventual/"); slices.Contains(shares, subtest) {
					own.Home = at("eu")
				}
				if own.Home != nil {
					return core.Must(New(own))
				}
				alone := own
				alone.Home = at("eu")
				return bucketsAt{core.Must(New(alone)), core.Must(New(own))}
			})
		})
	}
}

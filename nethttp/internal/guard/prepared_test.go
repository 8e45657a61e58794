package guard

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/headers"
)

// TestPreparedIsBounded: however many different limits there are, few fields are kept, and
// those of one plan are prepared once.
func TestPreparedIsBounded(t *testing.T) {
	l := core.Must(core.New(core.Config{Store: memstore.New(), Limits: []core.Limit{core.PerMinute(1)}}))
	g, err := newPreparedFields(&Config{Formats: []headers.Format{headers.IETF}}, l)
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for i := range int64(2) {
		group.Go(func() {
			for n := range int64(3 * maxPrepared / 2) {
				g.of(l, []core.Limit{core.PerMinute(1 + 2*n + i)})
			}
		})
	}
	group.Wait()
	if n := len(g.known); n == 0 || n > maxPrepared {
		t.Errorf("got %d, want at most %d", n, maxPrepared)
	}
	one := []core.Limit{core.PerMinute(7)}
	if first := g.of(l, one); first != g.of(l, one) {
		t.Error("the fields of one plan are prepared for each request, want once")
	}
	w := httptest.NewRecorder()
	d := core.Decision{Allowed: true, Limit: one[0].Named("1m0s"), Remaining: 6}
	g.of(l, one).write(w, &d, nil)
	if got, want := w.Header().Get("RateLimit-Policy"), `"1m0s";q=7;w=60`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestPlanAllocs: a plan allocates nothing that is the same for all requests of the plan.
func TestPlanAllocs(t *testing.T) {
	l := core.Must(core.New(core.Config{Store: memstore.New(), Limits: []core.Limit{core.PerMinute(1)}}))
	free, limits := core.Must(l.WithLimits(core.PerMinute(3))), []core.Limit{core.PerMinute(7)}
	for name, c := range map[string]Config{
		"limits":  {Limits: func(*http.Request) ([]core.Limit, error) { return limits, nil }},
		"limiter": {Limiter: func(*http.Request) (*core.Limiter, error) { return free, nil }},
	} {
		g, err := New(l, nil, []func(*Config) error{func(all *Config) error {
			all.Limits, all.Limiter = c.Limits, c.Limiter
			all.Formats = []headers.Format{headers.Classic, headers.IETF}
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		if n := testing.AllocsPerRun(100, func() {
			var request core.Request
			chosen, err := g.plan(r, &request)
			if err != nil || g.fields.of(chosen, request.Limits) == g.fields.own {
				t.Error(chosen, request.Limits, err)
			}
		}); n > 0 {
			t.Errorf("%s: got %v allocations, want 0", name, n)
		}
	}
}

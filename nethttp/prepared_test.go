package nethttp

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
	p := new(limitsByRequest)
	if err := p.prepare(l, &config{formats: []headers.Format{headers.IETF}}); err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for i := range int64(2) {
		group.Go(func() {
			for n := range int64(3 * maxPrepared / 2) {
				limits := []core.Limit{core.PerMinute(1 + 2*n + i)}
				if p.fieldsFor(limits) == nil {
					t.Error("no fields")
				}
			}
		})
	}
	group.Wait()
	if n := len(p.prepared); n == 0 || n > maxPrepared {
		t.Errorf("%d are kept, at most %d may be", n, maxPrepared)
	}
	one := []core.Limit{core.PerMinute(7)}
	if first := p.fieldsFor(one); first != p.fieldsFor(one) {
		t.Error("the fields of one plan are prepared for each request")
	}
	h := http.Header{}
	d := core.Decision{Allowed: true, Limit: one[0].Named("1m0s"), Remaining: 6}
	p.fieldsFor(one).write(h, &d, nil)
	if got := h.Get("RateLimit-Policy"); got != `"1m0s";q=7;w=60` {
		t.Error(got)
	}
}

// TestPlanAllocs: a plan allocates nothing that is the same for all requests of the plan.
func TestPlanAllocs(t *testing.T) {
	l := core.Must(core.New(core.Config{Store: memstore.New(), Limits: []core.Limit{core.PerMinute(1)}}))
	limits := []core.Limit{core.PerMinute(7)}
	c := &config{formats: []headers.Format{headers.Classic, headers.IETF}}
	for name, p := range map[string]planner{
		"limits": &limitsByRequest{limits: func(*http.Request) ([]core.Limit, error) { return limits, nil }},
		"tiers": &tiers{
			tier:   func(*http.Request) (string, error) { return "free", nil },
			limits: map[string][]core.Limit{"free": limits},
		},
	} {
		if err := p.prepare(l, c); err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		if n := testing.AllocsPerRun(100, func() {
			if found, err := p.plan(r); err != nil || found.fields == nil {
				t.Error(found, err)
			}
		}); n > 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

package storetest

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/model"
)

// history compares 500 decisions with the model, and a third as many answers of Usage. The requests have cost 1 and
// later any cost; the first limit is constant and later changes, for all requests or for one; at the end there are also
// charges and returns.
func (s *suite) history(limits []core.Limit, rng *rand.Rand) {
	h := history{suite: s, limits: limits, rng: rng}
	h.limiter = s.limiter(limits...)
	h.compareUsage(-1)
	for step := range 500 {
		if step/100%2 == 1 && step%25 == 24 {
			h.limits = h.changed()
			h.limiter = s.limiter(h.limits...)
		}
		h.step(step)
		if step%3 == 0 {
			h.compareUsage(step)
		}
		if rng.IntN(4) == 0 {
			time.Sleep(time.Duration(rng.Int64N(int64(3 * time.Millisecond))))
		}
	}
}

// history is a random history of one client, with a model of it.
type history struct {
	*suite
	limits   []core.Limit
	limiter  *core.Limiter
	rng      *rand.Rand
	client   model.Client
	reserved []*reserved
}

// reserved is an admitted request and the units that it may return.
type reserved struct {
	*core.Reservation
	cost, left int64
	limits     []core.Limit
}

// changed returns the limits with the first one raised or lowered.
func (h *history) changed() []core.Limit {
	limits := slices.Clone(h.limits)
	limits[0].Requests = 1 + 4*h.rng.Int64N(3) // few values: a small store holds few rules
	return limits
}

// step makes a request, compares its answer with the model's, and may give units back.
func (h *history) step(step int) {
	r := core.Request{Key: "client", Cost: 1, Peek: h.rng.IntN(6) == 0}
	r.Charge = step >= 400 && !r.Peek && h.rng.IntN(8) == 0
	switch {
	case step >= 200 && !r.Charge && h.rng.IntN(20) == 0:
		r.Cost = math.MaxInt64 >> h.rng.IntN(22) // sums with it overflow
	case step >= 200:
		r.Cost = h.rng.Int64N(5)
	}
	limits := h.limits
	if step >= 300 && h.rng.IntN(3) == 0 {
		limits = h.changed()
		r.Limits = limits
	}
	got := h.limiter.Reserve(ctx, r)
	if got.Decision.Err != nil {
		h.Fatal(got.Decision.Err)
	}
	ask := core.Ask{Cost: r.Cost, Peek: r.Peek, Override: &core.Override{Charge: r.Charge}}
	want := h.client.Ask(limits, got.Decision.At, ask)
	switch got.Decision.Source {
	case core.SourceCounted, core.SourceCached, core.SourceLeased:
		want.Source = got.Decision.Source
	}
	want.Region = got.Decision.Region
	if got.Decision != want {
		h.Fatalf("step %d, %+v:\n got %+v\nwant %+v", step, r, got.Decision, want)
	}
	if got.Decision.Allowed && !r.Peek && r.Cost > 0 {
		h.reserved = append(h.reserved, &reserved{got, r.Cost, r.Cost, limits})
	}
	if step >= 350 && h.rng.IntN(3) == 0 && len(h.reserved) > 0 {
		h.returns()
	}
}

// returns returns some units of a recent request, and compares their number with the model's.
func (h *history) returns() {
	recent := h.reserved[max(0, len(h.reserved)-20):]
	r := recent[h.rng.IntN(len(recent))]
	n := min(r.left, 1+h.rng.Int64N(r.cost))
	got, err := r.Return(ctx, n)
	if err != nil {
		h.Fatal(err)
	}
	if n == 0 {
		return
	}
	back := core.Refund{Key: "client", Cost: r.left, At: r.Decision.At, Units: n, Limits: r.limits}
	r.left -= n
	want := h.client.Return(h.limits, h.limiter.AllowN(ctx, "client", 0).At, back)
	if got != want && want != n { // the request may have left the window since
		h.Fatalf("%d of %d units given back, want %d", got, n, want)
	}
}

// compareUsage compares the answer of Usage with the model's.
func (h *history) compareUsage(step int) {
	uses, err := h.limiter.Usage(ctx, "client")
	if err != nil || len(uses) != len(h.limits) {
		h.Fatalf("step %d: %v, %v, want a use for each of %v", step, uses, err, h.limits)
	}
	if want := h.client.Usage(h.limits, uses[0].At); !slices.Equal(uses, want) {
		h.Fatalf("step %d:\n got %+v\nwant %+v", step, uses, want)
	}
}

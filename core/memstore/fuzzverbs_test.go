package memstore_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/model"
	"github.com/sashlimit/sash/core/memstore"
)

// verbs is a history of one client beside a model of it, as the fuzzer's bytes say.
type verbs struct {
	*testing.T
	choices
	limits   []core.Limit
	clock    *clock
	limiter  *core.Limiter
	model    model.Client
	reserved []*reserved
	last     core.Decision
}

// reserved is a request and what it may give back.
type reserved struct {
	*core.Reservation
	cost, left int64
}

// run interprets the bytes. A full store merges entries of a log that is charged, and the model does not: 300 requests
// under 3 limits have room.
func (v *verbs) run() {
	for step := 0; len(v.choices) > 0 && step < 300; step++ {
		v.clock.Add(v.wait(v.limits, v.last))
		switch action := v.next(16); {
		case action == 0:
			if err := v.limiter.Reset(ctx, "client"); err != nil {
				v.Fatal(err)
			}
			v.model = model.Client{}
		case action < 6 && len(v.reserved) > 0:
			v.giveBack(step)
		default:
			v.decide(step, action)
		}
	}
}

// decide makes a request, and compares the answer with the model's.
func (v *verbs) decide(step, action int) {
	costs := [...]int64{1, 0, 2, 3, 4, 1 << 20, core.MaxCounterRequests}
	r := core.Request{Key: "client", Cost: costs[v.next(len(costs))], Charge: action < 8, Peek: action == 8}
	limits := v.limits
	if action == 9 || action == 7 {
		limits = slices.Clone(limits)
		limits[v.next(len(limits))].Requests = 1 + int64(v.next(12))
		r.Limits = limits
	}
	got := v.limiter.Reserve(ctx, r)
	var want core.Decision
	if r.Charge {
		want = v.model.Charge(limits, v.clock.Now(), r.Cost)
	} else {
		want = v.model.Decide(limits, v.clock.Now(), r.Cost, !r.Peek)
	}
	if got.Decision != want {
		v.Fatalf("step %d: %v, %+v:\n got %+v\nwant %+v", step, v.limits, r, got.Decision, want)
	}
	v.last = want
	one := &reserved{Reservation: got, cost: r.Cost}
	if want.Allowed && !r.Peek {
		one.left = r.Cost
	}
	v.reserved = append(v.reserved, one)
}

// giveBack gives units of an earlier request back, some of them perhaps a second time.
func (v *verbs) giveBack(step int) {
	one := v.reserved[max(0, len(v.reserved)-1-v.next(6))]
	n := [...]int64{1, 2, one.cost, 2 * one.cost}[v.next(4)]
	got, err := one.Return(ctx, n)
	if err != nil {
		v.Fatal(err)
	}
	n = min(n, one.left)
	one.left -= n
	var want int64
	if n > 0 {
		back := core.Refund{Cost: one.cost, At: one.Decision.At, Units: n}
		want = v.model.Return(v.limits, v.clock.Now(), back)
	}
	if got != want {
		v.Fatalf("step %d: %v, %d of %+v given back at %v: %d, want %d",
			step, v.limits, n, one.Decision, v.clock.Now(), got, want)
	}
}

// fuzzVerbs runs the history that data says.
func fuzzVerbs(t *testing.T, data []byte) {
	v := verbs{T: t, choices: data}
	v.limits = v.choices.limits()
	store, clock := newStore(memstore.MinMaxBytes)
	v.clock, v.limiter = clock, limiter(t, store, v.limits...)
	v.run()
}

// FuzzVerbs compares histories of requests, peeks, charges, limits by request and units that
// are given back with the model, answer by answer.
func FuzzVerbs(f *testing.F) {
	f.Add([]byte("one limit, and requests that come in the order of these letters"))
	f.Add([]byte("\x02\x10\x00\x03\x00\x0a\xff\x05\x01\x1b\x07\x0b\x00" + "three limits, and a longer history"))
	f.Fuzz(fuzzVerbs)
}

// TestVerbs is FuzzVerbs on random histories.
func TestVerbs(t *testing.T) {
	for seed := range uint64(3000) {
		rng, data := rand.New(rand.NewPCG(seed, 3)), make([]byte, 600)
		for i := range data {
			data[i] = byte(rng.Uint32())
		}
		fuzzVerbs(t, data)
		if t.Failed() {
			t.Fatal("seed", seed)
		}
	}
}

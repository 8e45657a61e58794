package core_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/model"
	"github.com/sashlimit/sash/core/storetest"
)

// TestFallbackAllocs: a fallback in memory costs no allocation.
func TestFallbackAllocs(t *testing.T) {
	admitting := storetest.Fixed(core.Decision{Allowed: true})
	l := limiter(t, core.Config{Store: admitting, OnStoreError: core.Fallback(memory(), 1)})
	if n := testing.AllocsPerRun(100, func() { l.Allow(ctx, "k") }); n != 0 {
		t.Errorf("got %v allocations, want 0", n)
	}
}

// world is several replicas over one store, and a model of what each store counts.
type world struct {
	*testing.T
	rng            *rand.Rand
	limits, shares []core.Limit
	store          *recorder
	limiters       []*core.Limiter
	first          [3]model.Client   // the store's counts, by client
	second         [][3]model.Client // the counts of each replica's fallback
	admitted       [3][]storetest.Outcome
}

func newWorld(t *testing.T, rng *rand.Rand) *world {
	replicas := 1 + rng.IntN(4)
	w := &world{T: t, rng: rng, store: newRecorder(0), second: make([][3]model.Client, replicas)}
	for i := range 1 + rng.IntN(3) {
		limit := core.Per(1+rng.Int64N(60), time.Duration(1+rng.IntN(20))*time.Second).Named(fmt.Sprint("limit ", i))
		if rng.IntN(4) == 0 {
			limit = limit.Using(core.Algorithm(rng.IntN(len(core.Algorithms()))))
		}
		w.limits = append(w.limits, limit)
		limit.Requests = max(1, limit.Requests/int64(replicas))
		w.shares = append(w.shares, limit)
	}
	for range replicas {
		policy := core.Fallback(memory(), replicas)
		w.limiters = append(w.limiters, limiter(t, core.Config{Store: w.store, Limits: w.limits, OnStoreError: policy}))
	}
	return w
}

// decide makes a request of a client at a replica and compares the answer with the model.
func (w *world) decide(replica, client int, r core.Request) {
	asked := time.Now()
	r.Key = fmt.Sprint(client)
	d := w.limiters[replica].Decide(ctx, r)
	var want core.Decision
	if !w.store.down.Load() {
		want = w.first[client].Ask(w.limits, asked, core.Ask{Cost: r.Cost, Peek: r.Peek})
	}
	if w.store.down.Load() || w.store.slow.Load() {
		want = w.second[replica][client].Ask(w.shares, d.At, core.Ask{Cost: r.Cost, Peek: r.Peek})
		want.Source = core.SourceFallback
		if !errors.Is(d.Err, core.ErrStore) {
			w.Fatalf("the store has not answered: got the error %v, want %v", d.Err, core.ErrStore)
		}
		d.Err = nil
	}
	if d != want {
		w.Fatalf("replica %d, %+v:\n got %+v\nwant %+v", replica, r, d, want)
	}
	if d.Allowed && !r.Peek && r.Cost > 0 {
		w.admitted[client] = append(w.admitted[client], storetest.Outcome{At: d.At, Allowed: true, Cost: r.Cost})
	}
}

// check holds what a client was admitted since its last reset against the bound that Fallback promises.
func (w *world) check(client int) {
	for i, l := range w.limits {
		if l.Requests += int64(len(w.limiters)) * w.shares[i].Requests; !l.Algorithm.CanLease() { // an estimate
			continue
		}
		if err := storetest.CheckLogs(w.admitted[client], l); err != nil {
			w.Fatal(err)
		}
	}
}

func (w *world) reset(replica, client int) {
	down := w.store.down.Load()
	if err := w.limiters[replica].Reset(ctx, fmt.Sprint(client)); (err != nil) != down {
		w.Fatalf("reset, down %v: got the error %v", down, err)
	}
	w.second[replica][client] = model.Client{}
	if !down {
		w.first[client] = model.Client{}
	}
	w.check(client)
	w.admitted[client] = nil
}

func (w *world) step() {
	replica, client := w.rng.IntN(len(w.limiters)), w.rng.IntN(3)
	switch choice := w.rng.IntN(40); {
	case choice == 0:
		w.reset(replica, client)
	case choice < 4:
		w.store.down.Store(!w.store.down.Load())
	case choice == 4:
		w.store.slow.Store(!w.store.slow.Load())
	case choice < 12:
		time.Sleep(time.Duration(1+w.rng.IntN(8_000_000)/(1+w.rng.IntN(50))) * time.Microsecond)
	default:
		r := core.Request{Cost: 1, Peek: w.rng.IntN(6) == 0}
		if w.rng.IntN(3) == 0 {
			r.Cost = w.rng.Int64N(12)
		}
		w.decide(replica, client, r)
	}
}

// TestFallbackBound holds random histories of replicas whose store fails now and then
// against the model, answer by answer, and every window against the bound.
func TestFallbackBound(t *testing.T) {
	for seed := range uint64(300) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, rand.New(rand.NewPCG(seed, 14)))
			for range 400 {
				w.step()
			}
			for client := range w.admitted {
				w.check(client)
			}
		})
	}
}

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
	first          map[string]*model.Client   // the store's counts, by key
	second         []map[string]*model.Client // the counts of each replica's fallback, by key
	admitted       map[string][]storetest.Outcome
}

func newWorld(t *testing.T, rng *rand.Rand) *world {
	w := &world{T: t, rng: rng, store: newRecorder(0), first: map[string]*model.Client{},
		admitted: map[string][]storetest.Outcome{}}
	replicas := 1 + rng.IntN(4)
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
		w.second = append(w.second, map[string]*model.Client{})
	}
	return w
}

// client returns the model of a client, which it adds if there is none.
func client(byKey map[string]*model.Client, key string) *model.Client {
	if byKey[key] == nil {
		byKey[key] = &model.Client{}
	}
	return byKey[key]
}

// decide makes a request at a replica and compares the answer with the model.
func (w *world) decide(replica int, r core.Request) {
	asked := time.Now()
	d := w.limiters[replica].Decide(ctx, r)
	var want core.Decision
	if !w.store.down.Load() {
		want = client(w.first, r.Key).Ask(w.limits, asked, core.Ask{Cost: r.Cost, Peek: r.Peek})
	}
	if w.store.down.Load() || w.store.slow.Load() {
		want = client(w.second[replica], r.Key).Ask(w.shares, d.At, core.Ask{Cost: r.Cost, Peek: r.Peek})
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
		w.admitted[r.Key] = append(w.admitted[r.Key], storetest.Outcome{At: d.At, Allowed: true, Cost: r.Cost})
	}
}

// check holds what a client was admitted since its last reset against the bound that Fallback promises.
func (w *world) check(key string) {
	for i, l := range w.limits {
		if l.Requests += int64(len(w.limiters)) * w.shares[i].Requests; !l.Algorithm.CanLease() { // an estimate
			continue
		}
		if err := storetest.CheckLogs(w.admitted[key], l); err != nil {
			w.Fatal(err)
		}
	}
}

func (w *world) reset(replica int, key string) {
	down := w.store.down.Load()
	if err := w.limiters[replica].Reset(ctx, key); (err != nil) != down {
		w.Fatalf("reset, down %v: got the error %v", down, err)
	}
	delete(w.second[replica], key)
	if !down {
		delete(w.first, key)
	}
	w.check(key)
	delete(w.admitted, key)
}

func (w *world) step() {
	replica, key := w.rng.IntN(len(w.limiters)), fmt.Sprint("client ", w.rng.IntN(3))
	switch choice := w.rng.IntN(40); {
	case choice == 0:
		w.reset(replica, key)
	case choice < 4:
		w.store.down.Store(!w.store.down.Load())
	case choice == 4:
		w.store.slow.Store(!w.store.slow.Load())
	case choice < 12:
		time.Sleep(time.Duration(1+w.rng.IntN(8_000_000)/(1+w.rng.IntN(50))) * time.Microsecond)
	default:
		r := core.Request{Key: key, Cost: 1, Peek: w.rng.IntN(6) == 0}
		if w.rng.IntN(3) == 0 {
			r.Cost = w.rng.Int64N(12)
		}
		w.decide(replica, r)
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
			for key := range w.admitted {
				w.check(key)
			}
		})
	}
}

package memstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
)

// TestReturnOfEvicted: what a client without a slot has counted stays, since the sketch
// cannot tell it from what others have.
func TestReturnOfEvicted(t *testing.T) {
	for _, a := range core.Algorithms() {
		store := memstore.New(memstore.WithMaxBytes(memstore.MinMaxBytes))
		l := core.Must(core.New(core.Config{Store: store, Limits: []core.Limit{core.PerHour(10).Using(a)}}))
		r := l.Reserve(t.Context(), core.Request{Key: "k", Cost: 4})
		for i := 0; store.Stats().Evictions < 2000; i++ {
			l.AllowN(t.Context(), fmt.Sprint(i), 5)
			l.AllowN(t.Context(), fmt.Sprint(i), 5)
		}
		n, err := r.Return(t.Context(), 4)
		if err != nil || n != 0 {
			t.Errorf("%v: %d given back, %v", a, n, err)
		}
		if d := l.AllowN(t.Context(), "k", 7); d.Allowed {
			t.Errorf("%v: %+v after an eviction", a, d)
		}
	}
}

// BenchmarkReserve is a request that is given back.
func BenchmarkReserve(b *testing.B) {
	for _, a := range core.Algorithms() {
		b.Run(a.String(), func(b *testing.B) {
			l := core.Must(core.New(core.Config{Store: memstore.New(), Limits: []core.Limit{core.PerHour(1000).Using(a)}}))
			l.AllowN(b.Context(), "k", 500)
			b.ReportAllocs()
			for b.Loop() {
				if n, err := l.Reserve(b.Context(), core.Request{Key: "k", Cost: 1}).Return(b.Context(), 1); n != 1 || err != nil {
					b.Fatal(n, err)
				}
			}
		})
	}
}

// BenchmarkCharge is a charge, and BenchmarkLimits a request with limits of its own.
func BenchmarkCharge(b *testing.B) {
	for _, a := range core.Algorithms() {
		b.Run(a.String(), func(b *testing.B) {
			l := core.Must(core.New(core.Config{Store: memstore.New(), Limits: []core.Limit{busy(a)}}))
			b.ReportAllocs()
			for b.Loop() {
				l.Charge(b.Context(), "k", 1)
			}
		})
	}
}

func BenchmarkLimits(b *testing.B) {
	for _, a := range core.Algorithms() {
		b.Run(a.String(), func(b *testing.B) {
			limits := []core.Limit{core.Per(1, time.Millisecond).Using(a)}
			l := core.Must(core.New(core.Config{Store: memstore.New(), Limits: limits}))
			plan := []core.Limit{busy(a).Named(l.Limits()[0].Name)}
			b.ReportAllocs()
			for b.Loop() {
				if d := l.Decide(b.Context(), core.Request{Key: "k", Cost: 1, Limits: plan}); !d.Allowed {
					b.Fatal(d)
				}
			}
		})
	}
}

// busy is a limit that no benchmark reaches.
func busy(a core.Algorithm) core.Limit {
	return core.Per(core.MaxLogRequests, time.Millisecond).Using(a)
}

//go:build !race && !short

package memstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/window"
)

// TestSizes: what the accounting supposes of the allocator.
func TestSizes(t *testing.T) {
	for slots := 1; slots <= chunkSlots; slots++ {
		l := layoutOf(slots)
		made := cap(append([]*int(nil), make([]*int, l.last*int(unsafe.Sizeof(slot{}))/8)...)) * 8
		if most := l.bytes(); l.last < slots || l.chunks != 1 || int64(made) > most || most > int64(made)+100 {
			t.Errorf("%d slots are in a chunk of %d with %d bytes, foreseen were %d", slots, l.last, made, most)
		}
	}
	if size := unsafe.Sizeof(slot{}); size != 56 {
		t.Errorf("a slot takes %d bytes", size)
	}
	if size := unsafe.Sizeof(cell{}); size != cellBytes {
		t.Errorf("a cell takes %d bytes, want %d", size, cellBytes)
	}
	if size := unsafe.Sizeof(shard{}); size%64 != 0 {
		t.Errorf("a shard takes %d bytes: a neighbour's lock is in its line of the cache", size)
	}
	for words := 1; words < 20_000; words += 1 + words/4097 { // what takes more than 32 KiB has whole pages
		if got, most := int64(cap(slices.Grow([]int64(nil), words)))*8, ringBound(words); got > most {
			t.Errorf("%d words take %d bytes, foreseen were %d", words, got, most)
		}
	}
	log := window.Limit{N: 1 << 20, W: 1, Algorithm: core.SlidingLog}
	for words := 1; words < 100_000; words += 1 + words/50 {
		var c window.Count
		for c.Words() < words || c.Prepare(log, 0, 1) == 0 {
			c.Add(log, 1, 1)
		}
		foreseen := c.Prepare(log, 0, 1)
		c.Add(log, 1, 1)
		if got, most := ringBytes(&c), ringBound(foreseen); got > most {
			t.Errorf("a ring that was to have %d words takes %d bytes, foreseen were %d", foreseen, got, most)
		}
	}
}

// TestTimePasses: a shard's time is that of the machine, and goes on with its clock.
func TestTimePasses(t *testing.T) {
	s := New()
	if off := time.Since(time.UnixMicro(s.locked(&s.shards[0]))); off.Abs() > time.Hour {
		t.Errorf("the time is off by %v", off)
	}
	s.base = s.base.Add(-time.Hour)
	if passed := s.locked(&s.shards[0]) - s.baseMicros; passed < time.Hour.Microseconds() {
		t.Errorf("%d µs have passed in an hour", passed)
	}
}

// TestAccounting counts all bytes anew while random rules, costs, resets,
// changed limits and jumps of the clock go on in stores that are mostly full.
func TestAccounting(t *testing.T) {
	for seed, size := range []int64{MinMaxBytes, 256 << 10, 1 << 20, 2 << 20} {
		rng := rand.New(rand.NewPCG(uint64(seed), 2))
		now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
		s := New(WithMaxBytes(size), WithClock(func() time.Time { return now }))
		var limiters []*core.Limiter
		for i, limits := range [][]core.Limit{
			{core.PerMinute(1)},
			{core.PerMinute(100)},
			{core.PerMinute(1000).Named("m")},
			{core.PerMinute(50).Named("m")}, // on the counts of the one before
			{core.PerMinute(3).Using(core.SlidingCounter)},
			{core.PerSecond(5), core.PerMinute(10).Using(core.SlidingCounter), core.PerHour(40)},
			{core.PerSecond(1), core.PerMinute(2), core.PerHour(3), core.PerDay(4), core.Per(5, 48*time.Hour)},
			{core.PerDay(100_000)},
		} {
			l, err := core.New(core.Config{
				Name: fmt.Sprint(i - i/3%2), Store: s, Limits: limits, OnStoreError: core.FailClosed,
			})
			if err != nil {
				t.Fatal(err)
			}
			limiters = append(limiters, l)
		}
		clients, full, admitted := 20+int(size/200), 0, 0
		for step := range 25_000 {
			l := limiters[rng.IntN(len(limiters))]
			key := fmt.Sprint(rng.IntN(1 + rng.IntN(clients)))
			switch rng.IntN(40) {
			case 0:
				if err := l.Reset(context.Background(), key); err != nil {
					t.Fatal(err)
				}
			case 1:
				now = now.Add(time.Duration(rng.Int64N(int64(time.Second))))
			case 2:
				l.Peek(context.Background(), key)
			case 3:
				if rng.IntN(100) == 0 {
					now = now.Add(time.Duration(rng.Int64N(int64(30 * time.Hour))))
				}
			default:
				n := int64(1)
				if rng.IntN(3) == 0 {
					n = rng.Int64N(4)
				}
				d := l.AllowN(context.Background(), key, n)
				if d.Err != nil {
					full++
				} else if d.Allowed {
					admitted++
				}
			}
			if s.Stats().Bytes > size {
				t.Fatalf("step %d: %d bytes: the bound is %d", step, s.Stats().Bytes, size)
			}
			if step%250 == 0 {
				if err := s.Audit(); err != nil {
					t.Fatalf("%d bytes, step %d: %v", size, step, err)
				}
			}
		}
		if admitted < 1000 {
			t.Errorf("%d bytes: only %d requests were admitted (%d times full)", size, admitted, full)
		}
	}
}

package memstore_test

import (
	"context"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
)

var ctx = context.Background()

// Sizes of stores.
const (
	small = 256 << 10 // one shard
	large = 2 << 20   // several
)

// noon is a whole number of days after the epoch, so of most windows.
var noon = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

// clock goes on by so many microseconds with every look, and when it is told to.
type clock struct {
	micros atomic.Int64
	tick   int64
}

func (c *clock) Now() time.Time      { return time.UnixMicro(c.micros.Add(c.tick)) }
func (c *clock) Add(d time.Duration) { c.micros.Add(d.Microseconds()) }

// newStore returns a store of the given size with a clock that stands still.
func newStore(size int64) (*memstore.Store, *clock) {
	c := new(clock)
	c.micros.Store(noon.UnixMicro())
	return memstore.New(memstore.WithMaxBytes(size), memstore.WithClock(c.Now)), c
}

// newTickingStore returns a store of the given size with a clock that goes on by a
// microsecond with every look.
func newTickingStore(size int64) (*memstore.Store, *clock) {
	s, c := newStore(size)
	c.tick = 1
	return s, c
}

func limiter(t testing.TB, s core.Store, limits ...core.Limit) *core.Limiter {
	t.Helper()
	l, err := core.New(core.Config{Store: s, Limits: limits, OnStoreError: core.FailClosed})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// key names a client without fmt, which would be half of a flood's time.
func key(kind string, i int) string { return kind + strconv.Itoa(i) }

// heap is what is live.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// bounded fails when the store holds more than it may.
func bounded(t testing.TB, s *memstore.Store, most int64) {
	t.Helper()
	if n := s.Stats().Bytes; n > most {
		t.Fatalf("the store holds %d bytes: the bound is %d", n, most)
	}
}

var algorithms = core.Algorithms()

// fits is more than how many clients under one limit a store of that size holds.
func fits(size int) int { return size / 80 }

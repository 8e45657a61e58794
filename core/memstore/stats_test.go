package memstore_test

import (
	"testing"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
)

// checkStats compares the numbers of a store with those wanted, which need not say
// how many bytes there are.
func checkStats(t *testing.T, what string, s *memstore.Store, want memstore.Stats) {
	t.Helper()
	got := s.Stats()
	if want.Bytes = got.Bytes; got != want {
		t.Errorf("%s:\n got %+v\nwant %+v", what, got, want)
	}
}

// TestStats: each number is of what it says.
func TestStats(t *testing.T) {
	s, _ := newStore(large)
	want := memstore.Stats{MaxBytes: large}
	checkStats(t, "empty", s, want)
	l := limiter(t, s, core.PerHour(2), core.PerDay(9))
	limiter(t, s, core.PerHour(2)) // shares its counts with the first one
	want.Limits = 2
	for i := range 30 {
		l.AllowN(ctx, key("client ", i), 2)
	}
	want.Slots = 60
	checkStats(t, "30 clients under 2 limits", s, want)
	l.Allow(ctx, "client 0")
	l.AllowN(ctx, "a new key", 10)
	checkStats(t, "exact refusals", s, want)
	s.EvictAll()
	want.Slots, want.Evictions = 0, 60
	checkStats(t, "all evicted", s, want)
	l.Allow(ctx, "client 0")
	want.RefusedEvicted = 1
	checkStats(t, "a refusal of an evicted client", s, want)
	l.Peek(ctx, "client 0")
	l.AllowN(ctx, "client 0", 0)
	l.AllowN(ctx, "client 0", 10)
	checkStats(t, "questions, and a cost above the limit", s, want)
	if err := l.Reset(ctx, "client 0"); err != nil {
		t.Fatal(err)
	}
	want.Slots = 2
	checkStats(t, "reset", s, want)
	s.EvictAll()
	want.Slots = 0
	checkStats(t, "slots that count nothing were evicted", s, want)
}

// TestStatsOfAFlood: a new key's first request is admitted with a slot or in the
// sketches alone, or refused by the sketches; no slot goes unless another is evicted.
func TestStatsOfAFlood(t *testing.T) {
	s, _ := newStore(large)
	l := limiter(t, s, core.PerDay(1))
	const newKeys = 5 * large / 80
	var admitted uint64
	for i := range newKeys {
		if l.Allow(ctx, key("new key ", i)).Allowed {
			admitted++
		}
	}
	got := s.Stats()
	if n := uint64(got.Slots) + got.Evictions + got.SketchOnly; n != admitted {
		t.Errorf("%+v: %d with a slot or without, want %d admitted", got, n, admitted)
	}
	if n := got.RefusedEvicted + got.RefusedNewKeys; n != newKeys-admitted {
		t.Errorf("%+v: %d refused, want %d", got, n, newKeys-admitted)
	}
	// A new key is taken for another client when 16 bits of their hashes agree.
	if got.Evictions == 0 || got.SketchOnly == 0 || got.RefusedNewKeys < 100*got.RefusedEvicted || got.Full != 0 {
		t.Errorf("%+v: want evictions, a flood, new keys that nothing is known of, and no error", got)
	}
}

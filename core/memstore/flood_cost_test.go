//go:build !race && !short

package memstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
)

// floodedBytes is the size of a store in the tests of what a flood costs others. A larger store gives
// the same answers to as many times the names and clients.
const floodedBytes = 256 << 10

// admitted returns how many of n clients with a request each are admitted.
func admitted(l *core.Limiter, name string, n int) (admitted int) {
	for i := range n {
		if l.Allow(ctx, key(name, i)).Allowed {
			admitted++
		}
	}
	return admitted
}

// TestNewKeysAfterFlood: after a flood of names, one request each, new keys are counted under the
// same limit unless it is one that a few requests fill: then nearly all are refused early.
func TestNewKeysAfterFlood(t *testing.T) {
	const names, newKeys = 156_250, 1562 // of 10 million and 100,000 in 16 MiB
	for _, c := range []struct {
		limit       core.Limit
		least, most int
	}{
		{core.PerHour(1), 0, newKeys / 50}, // about 1 in 100, by the hashes of the run
		{core.Per(5, 15*time.Minute), 0, newKeys / 50},
		{core.PerHour(100), newKeys, newKeys},
		{core.PerDay(1000), newKeys, newKeys},
	} {
		s, _ := newStore(floodedBytes)
		l := limiter(t, s, c.limit)
		admitted(l, "name ", names)
		if got := admitted(l, "new key ", newKeys); got < c.least || got > c.most {
			t.Errorf("%v: got %d of %d newKeys counted, want %d to %d", c.limit, got, newKeys, c.least, c.most)
		}
	}
}

// TestGoodBesideNames: clients that send 60 of their 100 requests an hour are all served, while an
// hour's flood of names goes on.
func TestGoodBesideNames(t *testing.T) {
	const names, good = 78_125, 128 // of 5 million and 8,192 in 16 MiB
	s, c := newStore(floodedBytes)
	l := limiter(t, s, core.PerHour(100))
	for minute := range 60 {
		if got := admitted(l, "good ", good); got != good {
			t.Fatalf("minute %d: got %d good clients served, want all %d", minute, got, good)
		}
		for i := range names / 60 {
			l.Allow(ctx, fmt.Sprint("name ", minute, " ", i))
			c.Add(time.Minute / (names/60 + 1))
		}
	}
}

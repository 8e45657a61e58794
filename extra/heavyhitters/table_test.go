package heavyhitters

import (
	"hash/maphash"
	"math/rand/v2"
	"strconv"
	"testing"
	"unsafe"
)

// TestSetBounds: in a set, the count of a client is at most a sixteenth of the set's requests too high, and never too
// low. A client above a sixteenth has a place. That holds after each request, of clients that all come once, and of
// some heavy ones among them.
func TestSetBounds(t *testing.T) {
	const requests = 20_000
	seed := maphash.MakeSeed()
	for heavy := range 2 {
		rng := rand.New(rand.NewPCG(1, 2))
		exact := map[string]uint64{}
		s := new(set)
		for i := range requests {
			key := strconv.Itoa(i)
			if i%3 < heavy {
				key = strconv.Itoa(rng.IntN(10))
			}
			exact[key]++
			s.count(maphash.String(seed, key), key)
			if i%1000 == 999 {
				checkSet(t, s, exact)
			}
		}
	}
}

// checkSet compares a set with exact counts.
func checkSet(t *testing.T, s *set, exact map[string]uint64) {
	t.Helper()
	clients, requests, unlisted := s.add(nil)
	placed := map[string]bool{}
	for _, c := range clients {
		placed[c.Key] = true
		if n := exact[c.Key]; n < c.AtLeast || n > c.Requests {
			t.Errorf("%s sent %d, want from %d to %d", c.Key, n, c.AtLeast, c.Requests)
		}
		if over := c.Requests - c.AtLeast; over > requests/setSize {
			t.Errorf("%s: the bounds are %d apart, want at most %d", c.Key, over, requests/setSize)
		}
	}
	if unlisted > requests/setSize {
		t.Errorf("a client without a place may have sent %d, want at most %d", unlisted, requests/setSize)
	}
	for key, n := range exact {
		if !placed[key] && n > unlisted {
			t.Errorf("%s has no place and sent %d, want at most %d", key, n, unlisted)
		}
	}
}

// TestTableSize: the memory of a rule is as New says.
func TestTableSize(t *testing.T) {
	for k := 1; k <= maxK; k += 1 + k/10 {
		size := int(outcomes) * len(newTable(k).sets) * int(unsafe.Sizeof(set{}))
		n := len(newTable(k).sets) * setSize
		if n < k*entriesPerClient || n >= max(32, k*entriesPerClient*2+32) {
			t.Errorf("%d clients have %d entries", k, n)
		}
		if size > max(k, 1)*5<<10 || k > 1 && size < k*2<<10 {
			t.Errorf("%d clients take %d bytes, want from 2 to 5 KiB each", k, size)
		}
	}
}

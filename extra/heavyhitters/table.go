package heavyhitters

import (
	"slices"
	"sync"
)

const (
	ways       = 16 // clients that a set counts
	filterBits = 6
	filters    = 1 << filterBits // filters of a set

	// placesPerClient is the number of clients that are counted for each that is asked for.
	placesPerClient = 8

	// maxKey is the number of bytes of a key that are kept.
	maxKey = 96
)

// table counts the requests of clients. It is safe for concurrent use.
type table struct {
	sets []set
	mask uint64 // the bits of a hash that choose the set
}

// newTable returns a table for k clients. The number of its sets is a power of 2.
func newTable(k int) table {
	n, mask := 1, uint64(0)
	for n*ways < k*placesPerClient {
		n, mask = 2*n, 2*mask+1
	}
	return table{make([]set, n), mask}
}

// set counts the requests of the clients that belong to it. A place is free while its
// count is 0; places are filled in order.
type set struct {
	mu       sync.Mutex // guards all fields
	requests uint64

	hashes [ways]uint64
	counts [ways]uint64
	over   [ways]uint64 // how much of the count may be others' requests
	keys   [ways]shownKey

	// filters[i] is at least the requests of any client of the filter i that has no
	// place, and at most the lowest count.
	filters [filters]uint64
}

// shownKey is the beginning of a key. Its bytes are part of the set, so that a client
// takes a place without an allocation, and a key holds no memory of a request.
type shownKey struct {
	length uint8 // maxKey+1 if the key is longer
	bytes  [maxKey]byte
}

// count counts a request of the client named key.
func (t *table) count(hash uint64, key string) {
	t.sets[hash&t.mask].count(hash, key)
}

// filterOf returns the filter of a hash. Its bits are none that choose a set.
func filterOf(hash uint64) uint64 { return hash >> (64 - filterBits) }

func (s *set) count(hash uint64, key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
	lightest := 0
	for i, h := range &s.hashes {
		if s.counts[i] == 0 {
			s.settle(i, hash, key, 0)
			return
		}
		if h == hash {
			s.counts[i]++
			return
		}
		if s.counts[i] < s.counts[lightest] {
			lightest = i
		}
	}
	filter := &s.filters[filterOf(hash)]
	if *filter < s.counts[lightest] {
		*filter++
		return
	}
	before := *filter
	s.filters[filterOf(s.hashes[lightest])] = s.counts[lightest]
	s.settle(lightest, hash, key, before)
}

// settle gives the place i to a client, of which up to before requests have been counted
// in its filter, and counts one more. s.mu must be held.
func (s *set) settle(i int, hash uint64, key string, before uint64) {
	s.hashes[i], s.counts[i], s.over[i] = hash, before+1, before
	k := &s.keys[i]
	copy(k.bytes[:], key)
	k.length = uint8(min(len(key), maxKey+1))
}

// reset forgets all clients.
func (t *table) reset() {
	for i := range t.sets {
		s := &t.sets[i]
		s.mu.Lock()
		s.requests = 0
		clear(s.counts[:])
		clear(s.filters[:])
		s.mu.Unlock()
	}
}

// add appends the clients of the set to clients, and returns with them how many requests
// the set has counted, and how many a client without a place may have sent.
func (s *set) add(clients []Client) (_ []Client, requests, placeless uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, n := range &s.counts {
		if n == 0 {
			break
		}
		k := &s.keys[i]
		clients = append(clients, Client{
			Key:      string(k.bytes[:min(k.length, maxKey)]),
			Cut:      k.length > maxKey,
			Requests: n,
			AtLeast:  n - s.over[i],
		})
	}
	return clients, s.requests, slices.Max(s.filters[:])
}

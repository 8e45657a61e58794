package heavyhitters

import (
	"slices"
	"sync"
)

const (
	setSize    = 16 // clients in a set
	filterBits = 6
	filters    = 1 << filterBits // filters of a set

	// entriesPerClient is the number of counted clients for each client of a ranking.
	entriesPerClient = 8

	// maxKey is the largest number of stored bytes of a key.
	maxKey = 96
)

// table counts the requests of clients. It is safe for concurrent use.
type table struct {
	sets []set
	mask uint64 // bits of a hash that select the set
}

// newTable returns a table for k clients. The number of its sets is a power of 2.
func newTable(k int) table {
	n, mask := 1, uint64(0)
	for n*setSize < k*entriesPerClient {
		n, mask = 2*n, 2*mask+1
	}
	return table{make([]set, n), mask}
}

// set counts the requests of its clients. An entry is free while its count is 0; entries are filled in order.
type set struct {
	mu       sync.Mutex // guards all fields
	requests uint64

	hashes [setSize]uint64
	counts [setSize]uint64
	over   [setSize]uint64 // part of the count that may be of other clients
	keys   [setSize]keyPrefix

	// filters[i] is at least the requests of each client of the filter i without an entry, and at most the lowest
	// count.
	filters [filters]uint64
}

// keyPrefix is the beginning of a key. Its bytes are part of the set, so that a new entry needs no allocation and a key
// retains no memory of a request.
type keyPrefix struct {
	length uint8 // maxKey+1 if the key is longer
	bytes  [maxKey]byte
}

// count counts a request of the client named key.
func (t *table) count(hash uint64, key string) {
	t.sets[hash&t.mask].count(hash, key)
}

// filterOf returns the filter of a hash. Other bits of the hash choose the set.
func filterOf(hash uint64) uint64 { return hash >> (64 - filterBits) }

func (s *set) count(hash uint64, key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
	lowest := 0
	for i, h := range &s.hashes {
		if s.counts[i] == 0 {
			s.assign(i, hash, key, 0)
			return
		}
		if h == hash {
			s.counts[i]++
			return
		}
		if s.counts[i] < s.counts[lowest] {
			lowest = i
		}
	}
	filter := &s.filters[filterOf(hash)]
	if *filter < s.counts[lowest] {
		*filter++
		return
	}
	before := *filter
	s.filters[filterOf(s.hashes[lowest])] = s.counts[lowest]
	s.assign(lowest, hash, key, before)
}

// assign gives the entry i to a client and counts a request. The client's filter has counted up to before requests of
// it. s.mu must be held.
func (s *set) assign(i int, hash uint64, key string, before uint64) {
	s.hashes[i], s.counts[i], s.over[i] = hash, before+1, before
	k := &s.keys[i]
	copy(k.bytes[:], key)
	k.length = uint8(min(len(key), maxKey+1))
}

// reset removes all clients.
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

// add appends the clients of the set to clients. It also returns the number of counted requests, and the largest number
// that a client without an entry can have made.
func (s *set) add(clients []Client) (_ []Client, requests, unlisted uint64) {
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

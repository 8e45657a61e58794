package memstore

import (
	"math/rand/v2"
	"testing"

	"github.com/sashlimit/sash/core/internal/window"
)

// exactBucket is what a bucket is never to fall below: each client's units by
// epoch.
type exactBucket struct {
	bucket bucket
	now    int64
	counts map[[2]uint16]map[int64]int64 // by print and client, then by epoch
}

// exact returns what a client has counted as of now.
func (x *exactBucket) exact(client [2]uint16) (older, newer int64) {
	return x.counts[client][x.now-1], x.counts[client][x.now]
}

// check fails if the bucket has forgotten something of a client.
func (x *exactBucket) check(t *testing.T, what string) {
	t.Helper()
	for client := range x.counts {
		got, _ := x.bucket.look(client[0], x.now)
		older, newer := x.exact(client)
		if got.units() < older+newer || got.newer.Units() < newer {
			t.Fatalf("%s: client %v at %d: %+v, want at least %d of which %d are newer",
				what, client, x.now, got, older+newer, newer)
		}
	}
}

// evict writes what a client counts into the bucket: what a slot has counted
// that was there all the time, or that began with what the bucket says now.
func (x *exactBucket) evict(rng *rand.Rand, client [2]uint16) {
	known, _ := x.bucket.look(client[0], x.now)
	if x.counts[client] == nil {
		x.counts[client] = map[int64]int64{}
	}
	x.counts[client][x.now] += 1 + rng.Int64N(1<<rng.IntN(20))
	older, newer := x.exact(client)
	t := tally{window.Round(older), window.Round(newer)}
	if rng.IntN(2) == 0 {
		t = tally{known.older, window.Round(known.newer.Units() + newer)}
	}
	x.bucket.advance(x.now)
	x.bucket.raise(client[0], t)
}

// TestBucketNeverForgets holds buckets against exact counts, while clients with
// the same print and more of them than there are entries come and go, epochs
// pass and buckets are merged.
func TestBucketNeverForgets(t *testing.T) {
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 6))
		start := rng.Int64N(1000)
		var two [2]exactBucket
		for i := range two {
			two[i] = exactBucket{now: start, counts: map[[2]uint16]map[int64]int64{}}
		}
		prints := 1 + rng.IntN(30)
		for step := range 300 {
			x := &two[rng.IntN(2)]
			switch rng.IntN(30) {
			case 0:
				passed := rng.Int64N(4)
				two[0].now += passed
				two[1].now += passed
			case 1:
				if step < 150 {
					break
				}
				two[0].bucket.merge(&two[1].bucket, two[0].now)
				for client, byEpoch := range two[1].counts {
					client[1] += 1000 // another client of that print
					two[0].counts[client] = byEpoch
				}
				two[1] = exactBucket{now: two[0].now, counts: map[[2]uint16]map[int64]int64{}}
			default:
				x.evict(rng, [2]uint16{uint16(rng.IntN(prints)), uint16(rng.IntN(2))})
			}
			two[0].check(t, "first")
			two[1].check(t, "second")
		}
	}
}

// TestMergeWithAnEmptyBucket: an entry that is free stands for no client, not even for one whose print is 0. What one
// bucket has in its rest is not lost in the other's free entries.
func TestMergeWithAnEmptyBucket(t *testing.T) {
	var empty, full bucket
	if got, found := empty.look(0, 0); found || got != (tally{}) {
		t.Errorf("an empty bucket says %+v of a client, found: %v", got, found)
	}
	var ones bucket
	for print := range uint16(bucketEntries) {
		ones.raise(print, tally{newer: 1})
	}
	if ones.rest != (tally{}) {
		t.Errorf("as many clients as entries: %+v in the rest", ones.rest)
	}
	if ones.raise(99, tally{newer: 1}); ones.rest != (tally{newer: 1}) || ones.find(99) >= 0 {
		t.Errorf("%+v: one client more, who has no more units than others, is not in the rest alone", ones)
	}
	for print := range uint16(bucketEntries + 1) { // the first has the least
		full.raise(print, tally{newer: window.Round(int64(print) + 5)})
	}
	empty.merge(&full, 0)
	for print := range uint16(bucketEntries + 1) {
		if got, found := empty.look(print, 0); got.units() < int64(print)+5 || found != (print > 0) {
			t.Errorf("after a merge: %+v of a client with %d units, found: %v", got, print+5, found)
		}
	}
}

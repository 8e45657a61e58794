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

// check returns the first client that the bucket has forgotten something of.
func (x *exactBucket) check(t *testing.T, what string) {
	t.Helper()
	for client, byEpoch := range x.counts {
		got, epoch, _ := x.bucket.look(client[0], x.now)
		var want, newer int64
		for e, units := range byEpoch {
			if e >= x.now-1 {
				want += units
			}
			if e >= epoch {
				newer += units
			}
		}
		if got.units() < want || got.newer.Units() < newer {
			t.Fatalf("%s: client %v at %d: %+v of epoch %d, want at least %d of which %d are newer",
				what, client, x.now, got, epoch, want, newer)
		}
	}
}

// evict writes what a client counts into the bucket: what a slot has counted
// that was there all the time, or that began with what the bucket says now.
func (x *exactBucket) evict(rng *rand.Rand, client [2]uint16, back bool) {
	known, newest, _ := x.bucket.look(client[0], x.now)
	epoch := newest
	if back && rng.IntN(20) == 0 {
		epoch += rng.Int64N(4) // the clock has stepped back since
	}
	if x.counts[client] == nil {
		x.counts[client] = map[int64]int64{}
	}
	x.counts[client][epoch] += 1 + rng.Int64N(1<<rng.IntN(20))
	var t tally
	if rng.IntN(2) == 0 {
		t = known
		if epoch > newest { // all of it counts until then
			t = tally{older: window.Round(known.units())}
		}
		t.newer = window.Round(t.newer.Units() + x.counts[client][epoch])
	} else {
		var older int64
		for e, units := range x.counts[client] {
			if e < epoch && e >= x.now-1 {
				older += units
			}
		}
		t = tally{window.Round(older), window.Round(x.counts[client][epoch])}
	}
	x.bucket.advance(x.now, epoch)
	x.bucket.raise(client[0], t)
}

// TestBucketNeverForgets holds buckets against exact counts, while clients with
// the same print and more of them than there are entries come and go, epochs
// pass, clocks step back and buckets are merged.
func TestBucketNeverForgets(t *testing.T) {
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 6))
		back := seed%3 == 0
		start := rng.Int64N(1000) - 500
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
				if back {
					passed -= rng.Int64N(4)
				}
				two[0].now += passed
				two[1].now += passed
				if back && passed < 0 { // what had expired may be forgotten
					for _, x := range two {
						for _, byEpoch := range x.counts {
							for e := range byEpoch {
								if e < x.now-passed-1 {
									delete(byEpoch, e)
								}
							}
						}
					}
				}
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
				x.evict(rng, [2]uint16{uint16(rng.IntN(prints)), uint16(rng.IntN(2))}, back)
			}
			two[0].check(t, "first")
			two[1].check(t, "second")
		}
	}
}

// TestBucketSettles: where the clock has stepped back, what was counted in the next epoch
// stays in it, though another client of the bucket has counted further ahead.
func TestBucketSettles(t *testing.T) {
	for _, ahead := range []int64{2, 3, 1000} {
		const now, print, other = 8, 1, 2
		var b bucket
		b.advance(now, now+1)
		b.raise(print, tally{newer: 5})
		b.advance(now, now+ahead)
		b.raise(other, tally{newer: 3})
		b.settle(now)
		for p, want := range map[uint16]int64{print: 5, other: 3} {
			got, epoch, _ := b.look(p, now+1)
			if epoch != now+1 || got.newer.Units() < want {
				t.Errorf("%d epochs ahead, client %d: %+v of epoch %d, want at least %d newer of %d",
					ahead, p, got, epoch, want, now+1)
			}
			if got, _, _ := b.look(p, now+3); got != (tally{}) {
				t.Errorf("%d epochs ahead, client %d: %+v is left two epochs later", ahead, p, got)
			}
		}
	}
}

package regions

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/internal/redistest"
)

// network is the ways between regions.
type network struct {
	*globe
	ways    [3][3]*redistest.Way // from region, to region
	connect func(from, to int) redis.UniversalClient
}

// newNetwork returns regions whose servers show other times. A message takes from so many milliseconds to so many.
func newNetwork(t *testing.T, limit core.Limit, from, to int) *network {
	n := &network{}
	delay := func() time.Duration { return time.Duration(from+rand.IntN(to-from+1)) * time.Millisecond }
	ahead := []time.Duration{0, time.Hour, -time.Hour}
	var written []written
	var servers []*redistest.Server
	for region, ahead := range ahead {
		s := redistest.StartAhead(t, ahead)
		servers, written = append(servers, s), append(written, writtenBy(t, s, ahead))
		for from := range n.ways {
			if from != region {
				n.ways[from][region] = redistest.StartWay(t, s.Addr(), delay)
			}
		}
	}
	n.connect = func(from, to int) redis.UniversalClient {
		addr := servers[to].Addr()
		if from != to {
			addr = n.ways[from][to].Addr()
		}
		rdb := redis.NewClient(&redis.Options{Addr: addr})
		t.Cleanup(func() { rdb.Close() })
		return rdb
	}
	n.globe = newGlobe(t, limit, n.connect)
	n.ahead, n.written = ahead, written
	return n
}

// cutOff holds all ways from and to a region, or lets them through.
func (n *network) cutOff(region int, held bool) {
	for other := range n.ways {
		if other != region {
			n.ways[region][other].Hold(held, held)
			n.ways[other][region].Hold(held, held)
		}
	}
}

// disturb holds ways in both directions or one, and loses connections, at random.
func (n *network) disturb(rng *rand.Rand, lasts time.Duration) {
	for began := time.Now(); time.Since(began) < lasts; time.Sleep(time.Duration(rng.IntN(300)) * time.Millisecond) {
		from := rng.IntN(3)
		way := n.ways[from][(from+1+rng.IntN(2))%3]
		switch kind := rng.IntN(8); kind {
		case 0:
			way.Lose()
		case 1, 2, 3:
			way.Hold(kind != 1, kind != 2)
		default:
			way.Hold(false, false)
		}
	}
	for region := range n.ways {
		n.cutOff(region, false)
	}
}

// silent returns an error unless two regions see the third as silent.
func (n *network) silent(region int) error {
	for i, s := range n.eventual {
		if i != region && s.store.Stats().Regions[region].SilentSince.IsZero() {
			return errors.New(n.names[i] + " still sees it")
		}
	}
	return nil
}

// TestRegions: three servers, of which one is an hour ahead and one an hour behind, and messages that take 50 to 300
// ms, are held in one direction or both, and get lost. By what the servers have written, strict regions
// never admit more than the limit in a window, and eventual ones no more than Theorem E allows.
func TestRegions(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, core.Per(61, time.Second), 50, 300)
	lasts := 2 * time.Second
	if *long {
		lasts = 30 * time.Second
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	n.during(func() {
		n.waitForEnough()
		n.cutOff(2, true)
		redistest.WaitFor(t, "a region to be silent", func() error { return n.silent(2) })
		n.cutOff(2, false)
		n.disturb(rand.New(rand.NewPCG(seed, 0)), lasts)
	})
	n.judge(nil)
}

package regions

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/internal/redistest"
)

// lostUnits returns how many units the old server has counted of each mode that the new one knows nothing of.
func lostUnits(old, now written) map[string]int {
	lost := map[string]int{}
	for _, mode := range []string{"strict", "eventual"} {
		known := map[int64]int{}
		for _, u := range now.of(mode) {
			known[u.At.UnixMicro()]++
		}
		for _, u := range old.of(mode) {
			if known[u.At.UnixMicro()]--; known[u.At.UnixMicro()] < 0 {
				lost[mode]++
			}
		}
	}
	return lost
}

// decidesWithout returns an error until all regions have decided since then without the server of region 1: strict ones
// by another server, eventual ones by their own, and there by the policy.
func (g *globe) decidesWithout(since time.Time, failed int) error {
	for _, s := range slices.Concat(g.strict, g.eventual) {
		s.mu.Lock()
		after := slices.ContainsFunc(s.told, func(a admission) bool { return a.region != 1 && a.at.After(since) })
		if s == g.eventual[1] {
			after = s.failed > failed
		}
		s.mu.Unlock()
		if !after {
			return fmt.Errorf("%s, %s has not", g.names[s.store.here], s.mode)
		}
	}
	return nil
}

// TestRegionFailover: while the master of a region is dead, the others decide, strict ones there by the others, and
// eventual ones there by the policy. What a failover loses may be admitted once more, and no more than that: both
// theorems hold for what is not lost.
func TestRegionFailover(t *testing.T) {
	t.Parallel()
	ap, us, eu := redistest.Start(t), redistest.Start(t), redistest.StartSentinel(t, 1, 3)
	g := newGlobe(t, core.Per(61, time.Second), func(_, to int) redis.UniversalClient {
		return []redis.UniversalClient{ap.Client(t), eu.Client(t), us.Client(t)}[to]
	})
	old, now := writtenBy(t, eu.Servers[0], 0), writtenBy(t, eu.Servers[1], 0)
	g.written = []written{writtenBy(t, ap, 0), now, writtenBy(t, us, 0)}
	master := eu.Servers[0].Client(t)
	g.during(func() {
		g.waitForEnough()
		// From now on nothing reaches the replica.
		if err := errors.Join(
			master.Do(t.Context(), "ACL", "SETUSER", "default", "-psync", "-sync").Err(),
			master.Do(t.Context(), "CLIENT", "KILL", "TYPE", "replica").Err(),
		); err != nil {
			t.Fatal(err)
		}
		redistest.WaitFor(t, "units to lose", func() error {
			if lost := lostUnits(old, now); lost["strict"] < 10 || lost["eventual"] < 10 {
				return fmt.Errorf("%v so far", lost)
			}
			return nil
		})
		_, _, failed, _ := counts(g.eventual[1:2])
		eu.Servers[0].Kill()
		killed := time.Now()
		redistest.WaitFor(t, "decisions without a region", func() error { return g.decidesWithout(killed, failed) })
		before := map[string]int{"strict": len(now.of("strict")), "eventual": len(now.of("eventual"))}
		redistest.WaitFor(t, "the new master to decide", func() error {
			for mode, before := range before {
				if len(now.of(mode)) < before+10 {
					return errors.New(mode + " ones are not admitted")
				}
			}
			return nil
		})
	})
	lost := lostUnits(old, now)
	_, _, strict, _ := counts(g.strict)
	_, _, eventual, _ := counts(g.eventual)
	t.Logf("lost: %v; %d strict decisions by the policy, %d eventual ones", lost, strict, eventual)
	if strict > eventual/2 {
		t.Error("strict decisions fail as often as eventual ones")
	}
	g.judge(lost)
}

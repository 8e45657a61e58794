package regions

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/internal/redistest"
)

// TestRegionsUnderLoad: three servers, a message between which takes 75 to 112 ms, and bursts in all regions at once.
// By what the servers have written each admission is within the share of its region, or keeps Theorem E by looks that
// have come. That is so however busy the machine is.
func TestRegionsUnderLoad(t *testing.T) {
	for _, c := range []struct {
		name      string
		processes int
		others    int // names that ask all the time
		steady    int // requests of 50 ms each before the burst
	}{
		{"from rest", 1, 0, 0},
		{"two processes in each", 2, 0, 0},
		{"beside 1,500 other names", 1, 1500, 0},
		{"after a second of 20", 2, 0, 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			n := newNetwork(t, core.PerMinute(100), 75, 112)
			for here := range n.names {
				for range c.processes - 1 {
					n.eventual = append(n.eventual, n.newStation(here, "eventual", n.connect))
				}
			}
			ctx, cancel := context.WithCancel(t.Context())
			var warm, flood, burst sync.WaitGroup
			for _, s := range n.eventual {
				s.limiter = core.Must(core.New(core.Config{
					Name: s.mode, Store: s.store, Limits: []core.Limit{n.limit}, Timeout: 500 * ms,
					OnStoreError: core.FailClosed, Observer: core.Silent,
				}))
				warm.Go(func() {
					redistest.WaitFor(t, "connections", func() error {
						if err := s.store.Check(t.Context()); err != nil { // which waits for longer than a limiter
							return err
						}
						_, err := s.limiter.Usage(t.Context(), "another")
						return err
					})
				})
			}
			warm.Wait()
			for _, s := range n.eventual {
				for i := range min(c.others, 16) {
					flood.Go(func() {
						for name := i; ctx.Err() == nil; name = (name + 16) % c.others {
							s.limiter.AllowN(context.Background(), fmt.Sprint(name), 3)
						}
					})
				}
			}
			all := func(times int) {
				for _, s := range n.eventual {
					for range times {
						burst.Go(s.take)
					}
				}
			}
			for range c.steady {
				all(1)
				time.Sleep(50 * ms)
			}
			all(200)
			burst.Wait()
			cancel()
			flood.Wait()
			n.judgeShares()
		})
	}
}

// judgeShares holds each admission against what its region may have counted the others for: what a look has found of
// which the answer has come before the request was over, or the share.
func (n *network) judgeShares() {
	n.Helper()
	logs, merged := n.merge("eventual")
	over, told := 0, 0
	for _, s := range n.eventual {
		told += len(s.told)
		for _, a := range s.told {
			begin := a.at.Add(-n.limit.Window)
			own := logs[a.region].units(begin, a.at)
			if own <= share(n.limit.Requests, a.region, len(logs)) {
				continue
			}
			over++
			held := own
			for region := range logs {
				if region != a.region {
					held += s.withheld(region, a, &logs[region])
				}
			}
			if held > n.limit.Requests {
				n.Errorf("region %s admitted as number %d here, of %d with what it may have known of the others",
					n.names[a.region], own, held)
			}
		}
	}
	n.Logf("proved: %s: %d written, %d of them above a share, %d told", n.Name(), len(merged), over, told)
}

// withheld returns the least that the station may have counted a region for when it admitted a request.
func (s *station) withheld(region int, a admission, log *ledgerOf) int64 {
	least := share(s.limit.Requests, region, len(s.names))
	for _, l := range s.looks[region] {
		if l.came.Before(a.told) {
			least = min(least, log.units(a.at.Add(-s.limit.Window), l.ran))
		}
	}
	return least
}

package regions

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/internal/notice"
)

// strict decides requests so that each region enforces its share. Region i of R, by name, has
//
//	floor(N(i+1)/R) - floor(N*i/R)
//
// of each limit N.
//
// Theorem S. For logs, no window holds more than N admitted units in all regions together, under any
// partition, delay, loss or crash, and any constant difference between the clocks.
//
// Proof. Each admitted unit is counted before its request is answered, by exactly one region under its share, or
// belongs to a lease counted there. A store keeps every window of its own clock within its Requests, whichever reply is
// late or lost. Windows are lengths of time by one clock, so offsets have no effect. So no window holds more units of a
// region than its share, and the shares sum to N. QED.
//
// Likewise for a Bucket: in any interval of length t a region admits at most its share and t/W of it, and the shares
// sum to N. So a rule with a Bucket is strict in either mode.
//
// A store that loses counts, as in a failover of Redis, may admit as many units again until a window later.
type strict struct{ *rule }

// Take implements [core.Ledger]. It tries the local region, and after a refusal or a failure the others in turn, until
// one admits. The answer is the refusal that ends first. Regions that are not healthy are tried only if no other region
// refuses, so that a refusal does not wait for them.
func (s *strict) Take(ctx context.Context, ask core.Ask) core.Decision {
	s.checkOnce()
	home, err := s.home(ask.Key)
	switch {
	case err != nil:
		return core.Decision{Err: err}
	case home >= 0:
		return s.ask(ctx, ask, home, s.remotes[home].whole)
	}
	var buf [8]int
	candidates := s.candidates(buf[:0], &ask)
	if len(candidates) == 0 {
		return s.askLargest(ctx, ask)
	}
	s.probe(ask.Key)
	var refusal core.Decision // the earliest to end
	var failed error          // error of the first region that failed
	deadline := time.Now().Add(ask.Timeout)
	for at, i := range candidates {
		isHealthy := s.store.regions[i].isHealthy()
		if refusal.RetryAfter > 0 && !isHealthy {
			continue
		}
		last := at == len(candidates)-1 || isHealthy && !s.store.regions[candidates[at+1]].isHealthy()
		timeout, ok := nextTimeout(ask.Timeout, deadline, last)
		if !ok {
			break
		}
		d := s.askShare(ctx, ask, i, timeout)
		switch {
		case d.Err == nil && d.Allowed, d.Err != nil && ctx.Err() != nil:
			return d
		case d.Err != nil:
			failed = cmp.Or(failed, d.Err)
		case refusal.RetryAfter == 0 || d.RetryAfter < refusal.RetryAfter:
			refusal = d
		}
	}
	if refusal.RetryAfter > 0 {
		return refusal
	}
	return core.Decision{Err: cmp.Or(failed, errLate)}
}

// candidates appends to buf the regions whose share may admit the request: first the healthy ones, then the others,
// each in order.
func (s *strict) candidates(buf []int, ask *core.Ask) []int {
	all, healthy := buf, 0
	for _, i := range s.order {
		shares, ok := s.remotes[i].shares, s.remotes[i].share != nil
		if o := ask.Override; ok && o != nil && o.Limits != nil {
			shares, ok = shareOf(o.Limits, i, len(s.order))
		}
		switch {
		case !ok || !fits(ask.Cost, shares) && !isCharge(ask):
		case s.store.regions[i].isHealthy():
			all = slices.Insert(all, healthy, i)
			healthy++
		default:
			all = append(all, i)
		}
	}
	return all
}

// probe sends a request that counts nothing to each region that is not healthy: in the background, one at a time.
func (s *strict) probe(key string) {
	for i, region := range s.store.regions {
		if region.isHealthy() || !region.probing.CompareAndSwap(false, true) {
			continue
		}
		go func() {
			defer region.probing.Store(false)
			ctx, cancel := context.WithTimeoutCause(context.Background(), silentAfter, core.ErrTimeout)
			defer cancel()
			sent := s.store.now()
			_, err := s.remotes[i].whole.Usage(ctx, key)
			s.recordAnswer(region, err, sent, s.store.now())
		}()
	}
}

// errLate is the error of a request whose timeout ends before it is sent to any region.
var errLate = core.AtStage(core.StageQueued, core.ErrTimeout)

// nextTimeout returns the timeout of the next region: half of the time that is left, so that a silent region leaves
// time for others, and all of it for the last. Without a timeout it is 0. It reports false if no time is left.
func nextTimeout(timeout time.Duration, deadline time.Time, last bool) (time.Duration, bool) {
	if timeout <= 0 {
		return 0, true
	}
	left := time.Until(deadline)
	if !last {
		left /= 2
	}
	return left, left > 0
}

// askShare sends the request to region i under its share.
func (s *strict) askShare(ctx context.Context, ask core.Ask, i int, timeout time.Duration) core.Decision {
	limits := s.limitsOf(&ask)
	if o := ask.Override; o != nil && o.Limits != nil {
		shared := *o
		shared.Limits, _ = shareOf(o.Limits, i, len(s.order))
		ask.Override = &shared
	}
	ask.Timeout = timeout
	d := s.ask(ctx, ask, i, s.remotes[i].share)
	d.Limit = limits[limitIndex(&d, limits)]
	return d
}

// ask sends the request to region i by one of its ledgers.
func (s *strict) ask(ctx context.Context, ask core.Ask, i int, ledger core.Ledger) core.Decision {
	d := ledger.Take(ctx, ask)
	region := s.store.regions[i]
	if d.Err != nil && ctx.Err() == nil || d.Err == nil && d.Source == core.SourceCounted {
		now := s.store.now()
		s.recordAnswer(region, d.Err, now, now)
	}
	if d.Err != nil {
		d.Err = region.withName(d.Err)
		return d
	}
	if d.Allowed && i != s.store.local {
		region.spilled.Add(1)
	}
	d.Region = region.name
	return d
}

// askLargest sends a request that exceeds every share to the last region, which has the largest.
func (s *strict) askLargest(ctx context.Context, ask core.Ask) core.Decision {
	s.notice(notice.RegionShares, fmt.Sprintf("a request of %d units exceeds the largest share of a region in "+
		"%v: it can never pass: ask for fewer units, or set regions.Config.Home", ask.Cost, s.limitsOf(&ask)))
	return s.askShare(ctx, ask, len(s.order)-1, ask.Timeout)
}

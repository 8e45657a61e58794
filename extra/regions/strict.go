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

// strict is a rule of which each region enforces its share. Number i of R regions, by name, has
//
//	floor(N(i+1)/R) - floor(N*i/R)
//
// of each limit N.
//
// Theorem S. For logs, no window holds more than N admitted units in all regions together, under any
// partition, delay, loss or crash, and any constant difference between the clocks.
//
// Proof. Each admitted unit was counted before it was told, by exactly one region, under the share of
// that region; or it is a unit of a lease counted there. A store keeps every window of its own clock within
// the Requests that it is given, whatever reply is late or lost. This is about lengths of time by one
// clock, so no offset enters. So no window holds more units of a region than its share, and the
// shares sum to N. QED.
//
// Likewise for a Bucket: in any stretch of length t a region admits at most its share and t/W of that, and the shares
// sum to N. So a rule with a Bucket is strict whatever the Config says.
//
// A store that loses counts, as in a failover of Redis, may admit as many once more; that heals after a window.
type strict struct{ *rule }

// Take implements [core.Ledger]. It asks this region, and after a refusal or a failure the
// others in turn, until one admits. Of several refusals the one that ends first is the answer. A region that has
// not answered its latest question is asked only if no other one has refused: a refusal does not wait for it.
func (s *strict) Take(ctx context.Context, ask core.Ask) core.Decision {
	s.begin()
	home, err := s.home(ask.Key)
	switch {
	case err != nil:
		return core.Decision{Err: err}
	case home >= 0:
		return s.ask(ctx, ask, home, s.ledgers[home].whole)
	}
	var few [8]int
	candidates := s.candidates(few[:0], &ask)
	if len(candidates) == 0 {
		return s.askInVain(ctx, ask)
	}
	s.probe(ask.Key)
	var refusal core.Decision // the one that ends first
	var failed error          // of the first region that failed
	deadline := time.Now().Add(ask.Timeout)
	for at, i := range candidates {
		answers := s.store.regions[i].answers()
		if refusal.RetryAfter > 0 && !answers {
			continue
		}
		last := at == len(candidates)-1 || answers && !s.store.regions[candidates[at+1]].answers()
		timeout, ok := part(ask.Timeout, deadline, last)
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

// candidates appends to none, in their order, the regions whose share may admit the request. A region that has not
// answered its latest question comes after all that have.
func (s *strict) candidates(none []int, ask *core.Ask) []int {
	all, answering := none, 0
	for _, i := range s.order {
		shares, some := s.ledgers[i].shares, s.ledgers[i].share != nil
		if o := ask.Override; some && o != nil && o.Limits != nil {
			shares, some = shareOf(o.Limits, i, len(s.order))
		}
		switch {
		case !some || !fits(ask.Cost, shares) && !isCharge(ask):
		case s.store.regions[i].answers():
			all = slices.Insert(all, answering, i)
			answering++
		default:
			all = append(all, i)
		}
	}
	return all
}

// probe asks each region that has not answered its latest question whether it is back: in the background, one question
// at a time, which counts nothing.
func (s *strict) probe(key string) {
	for i, region := range s.store.regions {
		if region.answers() || !region.probing.CompareAndSwap(false, true) {
			continue
		}
		go func() {
			defer region.probing.Store(false)
			ctx, cancel := context.WithTimeoutCause(context.Background(), silence, core.ErrTimeout)
			defer cancel()
			sent := s.store.now()
			_, err := s.ledgers[i].whole.Usage(ctx, key)
			s.answered(region, err, sent, s.store.now())
		}()
	}
}

// errLate is the error of a request that had no time to ask a region.
var errLate = core.AtStage(core.StageQueued, core.ErrTimeout)

// part returns the time that a region may take of what is left of a timeout: half of it, so
// that a silent region leaves some for the next, and all of it for the last. Without a timeout
// it is 0. It reports false if nothing is left.
func part(timeout time.Duration, deadline time.Time, last bool) (time.Duration, bool) {
	if timeout <= 0 {
		return 0, true
	}
	left := time.Until(deadline)
	if !last {
		left /= 2
	}
	return left, left > 0
}

// askShare asks region i under its share.
func (s *strict) askShare(ctx context.Context, ask core.Ask, i int, timeout time.Duration) core.Decision {
	limits := s.limitsOf(&ask)
	if o := ask.Override; o != nil && o.Limits != nil {
		shared := *o
		shared.Limits, _ = shareOf(o.Limits, i, len(s.order))
		ask.Override = &shared
	}
	ask.Timeout = timeout
	d := s.ask(ctx, ask, i, s.ledgers[i].share)
	d.Limit = limits[limitIndex(&d, limits)]
	return d
}

// ask asks region i by one of its ledgers.
func (s *strict) ask(ctx context.Context, ask core.Ask, i int, ledger core.Ledger) core.Decision {
	d := ledger.Take(ctx, ask)
	region := s.store.regions[i]
	if d.Err != nil && ctx.Err() == nil || d.Err == nil && d.Source == core.SourceCounted {
		now := s.store.now()
		s.answered(region, d.Err, now, now)
	}
	if d.Err != nil {
		d.Err = region.failed(d.Err)
		return d
	}
	if d.Allowed && i != s.store.here {
		region.spilled.Add(1)
	}
	d.Region = region.name
	return d
}

// askInVain has the last region, which has the largest share, answer a request that exceeds every share.
func (s *strict) askInVain(ctx context.Context, ask core.Ask) core.Decision {
	s.notice(notice.RegionShares, fmt.Sprintf("a request of %d units exceeds the largest share that a region has of "+
		"%v: it can never pass: ask for fewer units, or give a regions.Config.Home", ask.Cost, s.limitsOf(&ask)))
	return s.askShare(ctx, ask, len(s.order)-1, ask.Timeout)
}

package core

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sashlimit/sash/internal/errs"
	"github.com/sashlimit/sash/internal/notice"
)

// Pair is a request of [DecideAll], and the limiter that decides it.
type Pair struct {
	Limiter *Limiter
	Request Request
}

// DecideAll decides several requests of one caller, such as by the limits of a client and of all
// clients: all are counted, or none is. It returns the decision that binds, and the index
// of its pair: the first refusal, or else the one with the least Remaining, then the longest ResetAfter,
// then the first.
//
// Stores in memory are asked first, in turn, and then all others at the same time. Give the pair that
// refuses most often first. What was counted beside a refusal is given back as by [Reservation.Return],
// also if ctx ends; until then others may be refused for it. Units stay counted where a return fails,
// which the observer is told by a notice, and may stay where a store failed.
//
// A pair whose store cannot be asked is decided by its policy; then Err is the first such error.
// Observers are told of what is not given back. No pairs, a pair without a limiter, and a charge are
// an [ErrInvalid].
func DecideAll(ctx context.Context, pairs ...Pair) (d Decision, binding int) {
	if i, err := checkPairs(pairs); err != nil {
		return Decision{Err: err}, i
	}
	answers := make([]pairResult, len(pairs))
	var refused atomic.Bool
	forEach(pairs, func(i int) {
		if !refused.Load() && !answers[i].ask(ctx, &pairs[i]) {
			refused.Store(true)
		}
	})
	d, binding = result(answers)
	if !d.Allowed {
		forEach(pairs, func(i int) { answers[i].giveBack(ctx) })
	}
	for i := range answers {
		answers[i].tell(ctx, d.Allowed)
	}
	return d, binding
}

// forEach calls do for each pair: in turn if its store answers from memory, and then for all
// others at the same time, for the first of them last and in this goroutine. What do panics
// with in another goroutine, it panics with in this one, where net/http recovers.
func forEach(pairs []Pair, do func(i int)) {
	for i := range pairs {
		if !pairs[i].Limiter.waits {
			do(i)
		}
	}
	own, group := -1, sync.WaitGroup{}
	var panicked atomic.Pointer[any]
	for i := range pairs {
		switch {
		case !pairs[i].Limiter.waits:
		case own < 0:
			own = i
		default:
			group.Go(func() {
				defer func() {
					if p := recover(); p != nil {
						panicked.Store(&p)
					}
				}()
				do(i)
			})
		}
	}
	if own >= 0 {
		do(own)
	}
	group.Wait()
	if p := panicked.Load(); p != nil {
		panic(*p)
	}
}

// pairResult holds the outcome of a pair.
type pairResult struct {
	reserved *Reservation // nil if the pair was not asked, since another one was refused
	elapsed  time.Duration
	kept     error // why units stay counted that were to be given back
}

// ask asks for a pair, and reports whether it is admitted.
func (a *pairResult) ask(ctx context.Context, p *Pair) bool {
	start, r := p.Limiter.startOfTimed(), p.Request
	r.Unreported = true // tell does that
	a.reserved = newReservation(p.Limiter, p.Request, p.Limiter.Decide(ctx, r))
	a.elapsed = since(start)
	return a.reserved.Decision.Allowed
}

// result returns the first refusal, or else the admission that binds, and the index of its pair.
func result(answers []pairResult) (d Decision, binding int) {
	var failed error // of the first pair whose store could not be asked
	for i := range answers {
		r := answers[i].reserved
		switch {
		case r == nil:
			continue
		case !r.Decision.Allowed:
			return r.Decision, i
		case failed == nil:
			failed = r.Decision.Err
		}
		if i == 0 || r.Decision.binds(&d) {
			d, binding = r.Decision, i
		}
	}
	d.Err = failed
	return d, binding
}

// giveBack gives back what was counted for a pair.
func (a *pairResult) giveBack(ctx context.Context) {
	if a.reserved == nil || a.reserved.left == 0 {
		return
	}
	cost := a.reserved.left
	units, err := a.reserved.Return(ctx, cost)
	if err == nil && units < cost {
		err = errors.New("sash: the store does not find them any more")
	}
	a.kept = err
}

// tell tells the observer of a pair of its decision, or of units that stay counted.
func (a *pairResult) tell(ctx context.Context, allowed bool) {
	switch r := a.reserved; {
	case r == nil:
	case allowed || !r.counted():
		r.limiter.report(ctx, &r.request, &r.Decision, a.elapsed)
	case a.kept != nil:
		r.limiter.Notice(ctx, notice.NotGivenBack, "requests that another limiter refused stay counted, "+
			"since the store could not give them back: "+errs.Text(a.kept))
	}
}

// checkPairs returns what is wrong with the pairs before any is asked, and the index.
func checkPairs(pairs []Pair) (int, error) {
	if len(pairs) == 0 {
		return 0, fmt.Errorf("%w: core.DecideAll without pairs: give at least one", ErrInvalid)
	}
	for i := range pairs {
		switch p := &pairs[i]; {
		case p.Limiter == nil || p.Limiter.counts == nil:
			return i, fmt.Errorf("%w: pair %d of core.DecideAll has no limiter: give one of core.New", ErrInvalid, i)
		case p.Request.Charge:
			return i, fmt.Errorf("%w: pair %d of core.DecideAll is a charge, which is never refused: "+
				"use Limiter.Charge", ErrInvalid, i)
		}
	}
	return 0, nil
}

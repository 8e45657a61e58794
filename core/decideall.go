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
// clients: all are counted, or none is. It returns the binding decision and the index of its pair: the
// first refusal, else the admission with the least Remaining, then the longest ResetAfter, then the first.
//
// Stores in memory decide first, one after the other, then all others at the same time. Give the pair that
// refuses most often first. After a refusal the units of the other pairs are returned as by
// [Reservation.Return], also if ctx ends; until then they count for other requests. Units stay counted if
// a return fails, with a notice to the observer, and may stay counted where a store failed.
//
// The policy decides a pair whose store fails; then Err is the first such error. If all are admitted, observers get
// each decision, and else the refusals. Without pairs, with a pair without a limiter, or with a charge the error is an
// [ErrInvalid].
func DecideAll(ctx context.Context, pairs ...Pair) (d Decision, binding int) {
	if i, err := checkPairs(pairs); err != nil {
		return Decision{Err: err}, i
	}
	results := make([]pairResult, len(pairs))
	var refused atomic.Bool
	forEach(pairs, func(i int) {
		if !refused.Load() && !results[i].decide(ctx, pairs[i].Limiter, pairs[i].Request) {
			refused.Store(true)
		}
	})
	d, binding = bindingOf(results)
	if !d.Allowed {
		forEach(pairs, func(i int) { results[i].returnUnits(ctx) })
	}
	for _, p := range results {
		if r := p.reservation; r != nil && (d.Allowed || !r.isCounted()) {
			r.limiter.report(ctx, &r.request, &r.Decision, p.elapsed)
		}
	}
	return d, binding
}

// forEach calls do for each pair: one after the other for stores in memory, then at the same time for all others, the
// first of them in this goroutine. A panic in another goroutine is repeated in this one, where net/http recovers.
func forEach(pairs []Pair, do func(i int)) {
	var remote []int
	for i := range pairs {
		if pairs[i].Limiter.mayWait {
			remote = append(remote, i)
		} else {
			do(i)
		}
	}
	if len(remote) == 0 {
		return
	}
	var group sync.WaitGroup
	var panicked atomic.Pointer[any]
	for _, i := range remote[1:] {
		group.Go(func() {
			defer func() {
				if p := recover(); p != nil {
					panicked.Store(&p)
				}
			}()
			do(i)
		})
	}
	do(remote[0])
	group.Wait()
	if p := panicked.Load(); p != nil {
		panic(*p)
	}
}

// pairResult is the outcome of a pair.
type pairResult struct {
	reservation *Reservation // nil if another pair was refused first
	elapsed     time.Duration
}

// decide decides a pair, and reports whether it is admitted.
func (p *pairResult) decide(ctx context.Context, l *Limiter, r Request) bool {
	start, silent := l.sampleTime(), r
	silent.Silent = true // DecideAll reports it
	p.reservation = newReservation(l, r, l.Decide(ctx, silent))
	p.elapsed = since(start)
	return p.reservation.Decision.Allowed
}

// bindingOf returns the first refusal, or else the admission that binds, and the index of its pair.
func bindingOf(results []pairResult) (d Decision, binding int) {
	var storeErr error // of the first pair whose store failed
	for i := range results {
		r := results[i].reservation
		switch {
		case r == nil:
			continue
		case !r.Decision.Allowed:
			return r.Decision, i
		case storeErr == nil:
			storeErr = r.Decision.Err
		}
		if i == 0 || r.Decision.isTighter(&d) {
			d, binding = r.Decision, i
		}
	}
	d.Err = storeErr
	return d, binding
}

// returnUnits returns the units that were counted for a pair, and reports those that stay counted.
func (p *pairResult) returnUnits(ctx context.Context) {
	r := p.reservation
	if r == nil || r.refundable == 0 {
		return
	}
	cost := r.refundable
	units, err := r.Return(ctx, cost)
	if err == nil && units < cost {
		err = errors.New("sash: the store does not find them any more")
	}
	if err != nil {
		r.limiter.Notice(ctx, notice.ReturnFailed, "requests that another limiter refused stay counted, "+
			"since the store could not return them: "+errs.Text(err))
	}
}

// checkPairs returns an error if a pair cannot be decided, and the index of the pair.
func checkPairs(pairs []Pair) (int, error) {
	if len(pairs) == 0 {
		return 0, fmt.Errorf("%w: core.DecideAll without pairs: give at least one", ErrInvalid)
	}
	for i := range pairs {
		switch p := &pairs[i]; {
		case p.Limiter == nil || p.Limiter.config.Store == nil:
			return i, fmt.Errorf("%w: pair %d of core.DecideAll has no limiter: give one of core.New", ErrInvalid, i)
		case p.Request.Charge:
			return i, fmt.Errorf("%w: pair %d of core.DecideAll is a charge, which is never refused: "+
				"use Limiter.Charge", ErrInvalid, i)
		}
	}
	return 0, nil
}

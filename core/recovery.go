package core

import (
	"context"
	"encoding/binary"
	"math/bits"
	"slices"
	"sync"
	"time"
)

// withholding is what one limit keeps back from a client because of the units that
// the fallbacks have admitted.
type withholding struct {
	requests int64         // the lowered limit, which the first store enforces
	excess   int64         // requests less what the client may have; if positive, a cost above 0 is refused
	retry    time.Duration // if refused, the time until the fallback counts few enough units
	reset    time.Duration // the time until the fallback's quota starts to come back; 0 if it counts nothing
}

// fewLimits is the largest number of limits for which a decision allocates no
// memory of its own (TestFallbackAllocs).
const fewLimits = 4

// takeLowered asks the first store while the fallback may count something. What
// the fallback counts for the client lowers the limits of the first store.
// Requests is no part of the identity of a count, so the first store still checks
// and counts in one step, and charges nothing that is refused (TestRecovery).
func (l *Limiter) takeLowered(ctx context.Context, r Request) (Decision, error) {
	var few [fewLimits]withholding
	withheld, lowers := l.fallback.appendWithholdings(ctx, few[:0], l.limits, r)
	if !lowers {
		return l.counts.Take(ctx, r.ask(l.firstTimeout))
	}
	lowered, err := l.loweredCounts(withheld)
	if err != nil {
		return Decision{}, err
	}
	ask := r.ask(l.firstTimeout)
	if slices.ContainsFunc(withheld, func(w withholding) bool { return w.excess > 0 }) {
		ask.Peek = true // the request is refused in any case
	}
	d, err := lowered.Take(ctx, ask)
	if err == nil {
		l.addWithholdings(&d, withheld, r.Cost)
	}
	return d, err
}

// appendWithholdings appends what each limit keeps back from the client, and
// reports whether any limit keeps back anything. It takes at most peekTimeout, so
// that time is left for the first store (TestFallbackHangs). A fallback that fails
// for one of the limits keeps nothing back (TestFallbackFailsInPart), and neither does
// a cost that exceeds a limit: it can never pass, and the first store says so
// (TestRecovery).
func (f *fallback) appendWithholdings(
	ctx context.Context, withheld []withholding, limits []Limit, r Request,
) (_ []withholding, lowers bool) {
	if f.waits {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, f.peekTimeout, ErrTimeout)
		defer cancel()
	}
	for i := range limits {
		if r.Cost > limits[i].Requests {
			return nil, false
		}
		w, err := f.withhold(ctx, &limits[i], i, r)
		if err != nil {
			return nil, false
		}
		withheld = append(withheld, w)
		lowers = lowers || w.requests < limits[i].Requests || w.excess > 0
	}
	return withheld, lowers
}

// withhold returns what limit i keeps back from the client. The cost of r must not
// exceed the limit.
func (f *fallback) withhold(ctx context.Context, limit *Limit, i int, r Request) (withholding, error) {
	v := &f.views[i]
	d, err := v.counts.Take(ctx, Ask{Key: r.Key, Peek: true})
	if err != nil {
		return withholding{}, err
	}
	left := max(0, limit.Requests-roundUp(v.share-d.Remaining)*f.replicas)
	// A store takes no limit below 1 (TestLoweredLimits).
	w := withholding{requests: max(1, left), reset: d.ResetAfter}
	w.excess = w.requests - left
	if left >= r.Cost {
		return w, nil
	}
	// The request is refused. The first store is asked even so, because its own
	// numbers are part of the answer.
	//
	// The request can pass as soon as the fallback counts no more than room units.
	// At the same time the fallback itself admits a cost of share-room, so the
	// RetryAfter of this cost is the time to wait (TestRetryOfLargeShare).
	room := roundDown((limit.Requests - r.Cost) / f.replicas)
	w.requests = limit.Requests - room*f.replicas
	w.excess = w.requests - left
	d, err = v.counts.Take(ctx, Ask{Key: r.Key, Cost: v.share - room, Peek: true})
	w.retry = max(d.RetryAfter, time.Microsecond) // units may have left since the first look (TestRetryIsPositive)
	return w, err
}

// precision is the number of leading binary digits that the rounding of units
// keeps. With few different numbers of units, few lowered rules are bound
// (TestRecoveryOfMany).
const precision = 6

// roundUp returns the least number that is not below n and has only zeros after
// its first precision binary digits.
func roundUp(n int64) int64 { return -roundDown(-n) }

// roundDown returns the greatest number that is not above n and has only zeros
// after its first precision binary digits.
func roundDown(n int64) int64 {
	digits := bits.Len64(uint64(max(n, -n)))
	zeros := max(0, digits-precision)
	return n >> zeros << zeros
}

// maxLowered is the most lowered rules that a limiter keeps, of some kilobytes each.
// They are kept until the fallback counts nothing any more, since binding a rule
// anew may cost a store a millisecond (TestRecoveryOfMany).
const maxLowered = 256

// loweredRules are the rules that are bound to the first store for clients with
// lowered limits.
type loweredRules struct {
	mu         sync.Mutex        // guards byRequests
	byRequests map[string]Counts // by the Requests of each limit, as varints
}

// find returns the rule of key, or nil. k.mu must not be held.
func (k *loweredRules) find(key []byte) Counts {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.byRequests[string(key)]
}

// keep adds a rule. If there are maxLowered rules already, it removes any one of
// them. k.mu must not be held.
func (k *loweredRules) keep(key []byte, rule Counts) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.byRequests) >= maxLowered {
		for other := range k.byRequests {
			delete(k.byRequests, other)
			break
		}
	}
	k.byRequests[string(key)] = rule
}

// loweredCounts returns the limiter's rule with lowered limits, bound to the first
// store.
func (l *Limiter) loweredCounts(withheld []withholding) (Counts, error) {
	rules := l.fallback.lowered.Load()
	if rules == nil { // if several requests come here, the rules of one of them are kept
		rules = &loweredRules{byRequests: map[string]Counts{}}
		l.fallback.lowered.Store(rules)
	}
	var few [fewLimits * binary.MaxVarintLen64]byte
	key := few[:0]
	for _, w := range withheld {
		key = binary.AppendVarint(key, w.requests)
	}
	if known := rules.find(key); known != nil {
		return known, nil
	}
	limits := slices.Clone(l.limits)
	for i := range limits {
		limits[i].Requests = withheld[i].requests
	}
	lowered, err := bind(l.config.Store, l.ruleWith(limits))
	if err != nil {
		return nil, err
	}
	rules.keep(key, lowered.counts) // another request may have bound the same rule; either one does
	return lowered.counts, nil
}

// addWithholdings turns the first store's answer under lowered limits into the
// answer for the client. A limit with an excess refuses too, and the longest wait
// counts (TestRecoveryOfBoth). Quota comes back when a unit leaves either store
// (TestWholeShare).
func (l *Limiter) addWithholdings(d *Decision, withheld []withholding, cost int64) {
	// The first limit stands for that of a store that does not say which one binds (TestRecoveryWithoutLimit).
	first := max(0, slices.IndexFunc(l.limits, func(limit Limit) bool { return limit.Name == d.Limit.Name }))
	binds, left := first, d.Remaining
	for i, w := range withheld {
		switch {
		case w.excess == 0:
		case cost == 0:
			binds = i
		case d.Allowed:
			d.Allowed, d.RetryAfter, binds, left = false, w.retry, i, left+cost
		case w.retry > d.RetryAfter:
			d.RetryAfter, binds = w.retry, i
		}
	}
	w := &withheld[binds]
	if binds != first {
		d.ResetAfter, left = w.reset, 0 // the store's numbers are about another limit (TestRecoveryOfSeveral)
	} else if w.reset > 0 && (d.ResetAfter == 0 || w.reset < d.ResetAfter) {
		d.ResetAfter = w.reset
	}
	d.Limit, d.Remaining = l.limits[binds], max(0, left-w.excess)
}

package core

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Config says what a [Limiter] enforces and where it counts.
type Config struct {
	// Name is part of the identity of every count: two limiters of the same
	// name on the same data share their counts, which is how replicas share,
	// and two that must not share need different names. It may be empty.
	Name string

	// Store is where counts are kept. Required.
	Store Store

	// Limits are enforced together: a request is admitted by all of them and
	// then counted by all, or refused and counted by none. At least one.
	Limits []Limit

	// OnStoreError decides while the store cannot be asked. Default FailOpen.
	OnStoreError FailurePolicy

	// Timeout is the most that a decision may wait for a store, the fallback
	// included. Default 100 ms.
	Timeout time.Duration

	// Observer hears of every decision. Default none.
	Observer Observer
}

// Limiter decides requests. It is safe for concurrent use.
type Limiter struct {
	config   Config // as given, with defaults filled in
	rule     string
	limits   []Limit
	counts   Counts
	bounded  Bounded       // counts, or nil if it is not
	fallback *fallback     // nil unless the policy is a Fallback
	first    time.Duration // the most that the first store may take

	waits bool // the first store may have to be waited for
}

// New returns a limiter for c. It does not talk to the store, so a program
// starts while its store is down.
func New(c Config) (*Limiter, error) {
	if err := checkName("limiter", c.Name); err != nil {
		return nil, err
	}
	if c.Store == nil {
		return nil, errors.New("sash: Config.Store is nil: give a store, such as memstore.New() or redisstore.New(client)")
	}
	if c.Timeout < 0 {
		return nil, fmt.Errorf("sash: Config.Timeout is %v: it must be positive, or 0 for the default of %v", c.Timeout, DefaultTimeout)
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.OnStoreError == nil {
		c.OnStoreError = FailOpen
	}
	return build(c, "", c.Limits)
}

// Must returns l, or panics with err: for limiters made while a program starts.
func Must(l *Limiter, err error) *Limiter {
	if err != nil {
		panic(err)
	}
	return l
}

// Rule returns a limiter with limits of its own under the same name, store and
// policy. Its counts are its own too: a rule of another name never shares
// them, one of the same name always does. Called on a rule it returns a
// sibling, not a part of that rule.
func (l *Limiter) Rule(name string, limits ...Limit) (*Limiter, error) {
	if name == "" {
		return nil, errors.New("sash: a rule needs a name: it keeps the rule's counts apart from others")
	}
	if err := checkName("rule", name); err != nil {
		return nil, err
	}
	return build(l.config, name, limits)
}

// WithPolicy returns the same limiter, on the same counts, with another policy
// for store errors; nil means [FailOpen]. It panics if policy is a [Fallback]
// that [New] would have refused.
func (l *Limiter) WithPolicy(policy FailurePolicy) *Limiter {
	c := l.config
	if policy == nil {
		policy = FailOpen
	}
	c.OnStoreError = policy
	return Must(build(c, l.rule, l.limits))
}

func build(c Config, rule string, limits []Limit) (*Limiter, error) {
	limits, err := checkLimits(limits)
	if err != nil {
		return nil, err
	}
	l := &Limiter{config: c, rule: rule, limits: limits, first: c.Timeout}
	if l.counts, err = c.Store.Bind(Rule{Name: c.Name, Rule: rule, Limits: slices.Clone(limits)}); err != nil {
		return nil, err
	}
	l.bounded, _ = l.counts.(Bounded)
	l.waits = !immediate(l.counts)
	if p, ok := c.OnStoreError.(fallbackPolicy); ok {
		if p.store == nil {
			return nil, errors.New("sash: the store of core.Fallback is nil: give one, such as memstore.New()")
		}
		if p.share < 1 {
			return nil, fmt.Errorf("sash: core.Share(%d): give the number of replicas, at least 1", p.share)
		}
		shares := slices.Clone(limits)
		for i := range shares {
			shares[i].Requests = max(1, shares[i].Requests/int64(p.share))
		}
		l.fallback = &fallback{outage: p.failures.outage(c.Name, rule)}
		for _, limit := range limits {
			l.fallback.window = max(l.fallback.window, limit.Window)
		}
		if l.fallback.counts, err = p.store.Bind(Rule{Name: c.Name, Rule: rule, Limits: shares}); err != nil {
			return nil, err
		}
		if !immediate(l.fallback.counts) {
			l.fallback.waits, l.fallback.glimpse = true, c.Timeout/2
			l.first /= 2 // leave the second store a chance within the timeout
		}
	}
	return l, nil
}

func immediate(c Counts) bool { _, ok := c.(Immediate); return ok }

// Name returns Config.Name.
func (l *Limiter) Name() string { return l.config.Name }

// RuleName returns the name given to [Limiter.Rule], or "" for a limiter of [New].
func (l *Limiter) RuleName() string { return l.rule }

// Limits returns a copy of the limits, every name filled in.
func (l *Limiter) Limits() []Limit { return slices.Clone(l.limits) }

// Allow decides a request of cost 1 by the client named key, and counts it if
// it is admitted.
func (l *Limiter) Allow(ctx context.Context, key string) Decision {
	return l.Decide(ctx, Request{Key: key, Cost: 1})
}

// AllowN is Allow for a request that costs n units, all or nothing. n = 0 is
// always allowed and counts nothing: it reads the numbers. n < 0 is refused
// with [ErrInvalid].
func (l *Limiter) AllowN(ctx context.Context, key string, n int64) Decision {
	return l.Decide(ctx, Request{Key: key, Cost: n})
}

// Peek answers what Allow would answer now, and counts nothing. For what is
// left without a request, use AllowN with n = 0.
func (l *Limiter) Peek(ctx context.Context, key string) Decision {
	return l.Decide(ctx, Request{Key: key, Cost: 1, Peek: true})
}

// Request is what [Limiter.Decide] decides. Unlike Allow, its zero Cost is 0.
type Request struct {
	Key   string // the client; any bytes, not empty
	Cost  int64
	Peek  bool   // answer as if, but count nothing
	Label string // handed to the observer; not part of any count
}

// Decide is the general form of Allow, AllowN and Peek.
func (l *Limiter) Decide(ctx context.Context, r Request) (d Decision) {
	if err := r.check(ctx); err != nil {
		d.Err = err
	} else if l.fallback != nil || l.waits && l.bounded == nil {
		d = l.decide(ctx, r)
	} else {
		// Here, since a Decision is large enough for each copy to be noticed.
		if l.bounded != nil {
			d, err = l.bounded.TakeWithin(ctx, l.first, r.Key, r.Cost, !r.Peek)
		} else {
			d, err = l.counts.Take(ctx, r.Key, r.Cost, !r.Peek)
		}
		if err != nil {
			d = l.onStoreError(ctx, ctx, r, err)
		} else {
			d.Err = nil
		}
	}
	if l.config.Observer != nil {
		l.config.Observer.Observe(ctx, Event{Name: l.config.Name, Rule: l.rule, Label: r.Label, Key: r.Key, Cost: r.Cost, Peek: r.Peek, Decision: d})
	}
	return d
}

// check returns what makes a request not worth a look at the store.
func (r *Request) check(ctx context.Context) error {
	switch {
	case r.Key == "":
		return errEmptyKey
	case r.Cost < 0:
		return errNegativeCost
	}
	return ctx.Err()
}

// decide asks a store that may have to be waited for, or two stores.
func (l *Limiter) decide(ctx context.Context, r Request) Decision {
	whole := ctx
	if l.fallback != nil && l.fallback.waits {
		var cancel context.CancelFunc
		whole, cancel = context.WithTimeoutCause(ctx, l.config.Timeout, ErrTimeout)
		defer cancel()
	}
	take := func() (Decision, error) {
		d, err := l.take(whole, r)
		if err == nil && d.Err != ErrRemembered && l.fallback != nil {
			l.fallback.noteAnswer()
		}
		return d, err
	}
	var d Decision
	var err error
	if l.fallback != nil && l.fallback.recovering() {
		d, err = l.fallback.also(whole, r, take)
	} else {
		d, err = take()
	}
	if err != nil {
		return l.onStoreError(ctx, whole, r, err)
	}
	d.Err = nil
	return d
}

// take asks the first store.
func (l *Limiter) take(ctx context.Context, r Request) (Decision, error) {
	if l.bounded != nil {
		return l.bounded.TakeWithin(ctx, l.first, r.Key, r.Cost, !r.Peek)
	}
	if l.waits {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, l.first, ErrTimeout)
		defer cancel()
	}
	return l.counts.Take(ctx, r.Key, r.Cost, !r.Peek)
}

// onStoreError applies the policy to err. ctx is the caller's; bounded ends
// with the limiter's timeout too.
func (l *Limiter) onStoreError(ctx, bounded context.Context, r Request, err error) Decision {
	if ended := ctx.Err(); ended != nil {
		return Decision{Err: ended} // the caller left: that says nothing about the store
	}
	err = asStoreError(err)
	if l.fallback == nil {
		return Decision{Allowed: l.config.OnStoreError == FailurePolicy(FailOpen), Err: err}
	}
	l.fallback.noteFailure()
	d, second := l.fallback.counts.Take(bounded, r.Key, r.Cost, !r.Peek)
	l.fallback.noteFailure() // again: what it has just counted is newer than the failure
	if second != nil {
		if ended := ctx.Err(); ended != nil {
			return Decision{Err: ended}
		}
		return Decision{Err: asStoreError(errors.Join(err, second))}
	}
	d.Err = err
	return d
}

// Reset forgets what is counted for key under the limits of this rule, in the
// store and in the fallback. Its error matches [ErrStore] or [ErrInvalid], or
// is that of the caller's own context when that had ended; when it is not nil,
// some counts may remain.
func (l *Limiter) Reset(ctx context.Context, key string) error {
	if key == "" {
		return errEmptyKey
	}
	whole, cancel := context.WithTimeoutCause(ctx, l.config.Timeout, ErrTimeout)
	defer cancel()
	first, cancel := context.WithTimeoutCause(whole, l.first, ErrTimeout)
	defer cancel()
	err := l.counts.Reset(first, key)
	if l.fallback != nil {
		err = errors.Join(err, l.fallback.counts.Reset(whole, key))
	}
	if err == nil {
		return nil
	}
	if ended := ctx.Err(); ended != nil {
		return ended
	}
	return asStoreError(err)
}

var (
	errEmptyKey     = fmt.Errorf("%w: the key is empty: every client needs a name", ErrInvalid)
	errNegativeCost = fmt.Errorf("%w: the cost is negative: costs are 0 or more", ErrInvalid)
)

// asStoreError makes every error of a store match ErrStore. An error that does
// already is passed on as it is, so that a flood allocates nothing.
func asStoreError(err error) error {
	if errors.Is(err, ErrStore) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrStore, err)
}

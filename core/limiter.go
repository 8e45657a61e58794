package core

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/sashlimit/sash/core/internal/waitqueue"
)

// Limiter decides requests. It is safe for concurrent use. Make one with [New].
type Limiter struct {
	config       Config           // with defaults filled in
	rule         string           // the name given to Rule; empty for a limiter of New
	boundRule                     // to the first store
	fallback     *fallbackRule    // nil unless the policy is a Fallback
	firstTimeout time.Duration    // for the first store
	observed     bool             // an observer gets every decision
	log          *errorLog        // the observer if it is one of LogErrors, which gets only errors
	waiting      waitqueue.Queues // callers of Wait
	noticeCodes  *sync.Map        // the codes of earlier notices, shared with the copies of WithPolicy and WithLimits
	cache        limiterCache     // the limiters of Rule and WithLimits
}

// Rule returns a limiter with limits and counts of its own under the same name, store and policy. Rules of one name
// share their counts. A rule of a rule is a sibling. It may be called for each request, as WithLimits.
func (l *Limiter) Rule(name string, limits ...Limit) (*Limiter, error) {
	err := checkName("rule", name)
	if name == "" {
		err = errors.New("sash: a rule needs a name: it keeps the rule's counts apart from others")
	}
	if err != nil {
		return nil, addNames(l.config.Name, "", err)
	}
	return l.limiterFor(name, limits, new(sync.Map))
}

// WithPolicy returns the same limiter, on the same counts, with another policy; nil means [FailOpen]. It panics on a
// policy that [New] would refuse.
func (l *Limiter) WithPolicy(policy Policy) *Limiter {
	c := l.config
	c.OnStoreError = cmp.Or(policy, FailOpen)
	return Must(build(c, l.rule, l.limits, l.noticeCodes))
}

// WithLimits returns the same limiter with other limits. One with the name, algorithm and window of one of l's shares
// its count, by a [Bucket] whatever the window: a client keeps what it has used. It may be called for each request: the
// same one to four limits give the same limiter, until 1,000 others were made. A store keeps data of all limits.
func (l *Limiter) WithLimits(limits ...Limit) (*Limiter, error) {
	if len(limits) == 0 {
		_, err := checkLimits(limits)
		return nil, addNames(l.config.Name, l.rule, err)
	}
	return l.limiterFor(l.rule, limits, l.noticeCodes)
}

// limiterCache holds limiters by their rule and limits, so that the same limits have the same leases, waiting
// callers and cached refusals.
type limiterCache struct {
	mu       sync.Mutex
	limiters map[cacheKey]*Limiter // maxCachedLimiters at most
}

type cacheKey struct {
	rule   string
	limits [4]Limit
}

const maxCachedLimiters = 1000

// limiterFor returns the limiter that l has made of the same rule and limits, or builds it.
func (l *Limiter) limiterFor(rule string, limits []Limit, noticeCodes *sync.Map) (limiter *Limiter, err error) {
	isNew := false
	defer func() { // after the Unlock, since the observer may call l
		if isNew {
			limiter.noticeLargeLog()
		}
	}()
	key, c := cacheKey{rule: rule}, &l.cache
	fits := copy(key.limits[:], limits) == len(limits)
	if fits {
		c.mu.Lock()
		defer c.mu.Unlock()
		if known := c.limiters[key]; known != nil {
			return known, nil
		}
	}
	limiter, err = build(l.config, rule, limits, noticeCodes)
	isNew = err == nil
	if !fits || !isNew {
		return limiter, err
	}
	if c.limiters == nil || len(c.limiters) >= maxCachedLimiters {
		c.limiters = map[cacheKey]*Limiter{}
	}
	c.limiters[key] = limiter
	return limiter, nil
}

// String returns `limiter "api", rule "login"`, or `limiter "api"`.
func (l *Limiter) String() string { return describe(l.config.Name, l.rule) }

// Name returns Config.Name.
func (l *Limiter) Name() string { return l.config.Name }

// RuleName returns the name given to [Limiter.Rule], or "".
func (l *Limiter) RuleName() string { return l.rule }

// Policy returns Config.OnStoreError, such as "fail open" in print.
func (l *Limiter) Policy() Policy { return l.config.OnStoreError }

// Limits returns a copy of the limits, every name filled in.
func (l *Limiter) Limits() []Limit { return slices.Clone(l.limits) }

// Allow decides a request of cost 1 by the client named key.
func (l *Limiter) Allow(ctx context.Context, key string) Decision {
	return l.Decide(ctx, Request{Key: key, Cost: 1})
}

// AllowN is Allow for a cost of n units, all or nothing. 0 reads the numbers.
func (l *Limiter) AllowN(ctx context.Context, key string, n int64) Decision {
	return l.Decide(ctx, Request{Key: key, Cost: n})
}

// Peek returns the decision that Allow would return now, and counts nothing.
func (l *Limiter) Peek(ctx context.Context, key string) Decision {
	return l.Decide(ctx, Request{Key: key, Cost: 1, Peek: true})
}

// Charge counts n units, at most [MaxCounterRequests], even beyond the limits: for units that a client has
// used already, such as the tokens of an answer. The Decision is an admission, with the numbers after the
// charge. Later requests are refused until units are free again. While the store fails, nothing is counted,
// and Allowed is the policy's; a [Fallback] counts.
func (l *Limiter) Charge(ctx context.Context, key string, n int64) Decision {
	return l.Decide(ctx, Request{Key: key, Cost: n, Charge: true})
}

// Decide is the general form of Allow, AllowN, Peek and Charge.
func (l *Limiter) Decide(ctx context.Context, r Request) (d Decision) {
	start := l.sampleTime()
	// All of this is one function, since a copy of a Decision takes 5 ns.
	if err := r.check(ctx, l.limits, l); err != nil {
		d.Err = err
	} else if r.Err != nil {
		d = l.onStoreError(ctx, &r, r.Err)
	} else if d = l.ledger.Take(ctx, r.ask(l.firstTimeout)); d.Err != nil {
		d = l.onStoreError(ctx, &r, d.Err)
	} else if d.Source == SourceNone {
		d.Source = SourceCounted
	}
	if !r.Silent && (d.Allowed || !r.SilentRefusal) && l.wantsEvent(&d) {
		l.report(ctx, &r, &d, since(start))
	}
	return d
}

// onStoreError returns the decision of the policy after the first store failed with err, or was left out.
// A fallback that waits gets the rest of the timeout.
func (l *Limiter) onStoreError(ctx context.Context, r *Request, err error) (d Decision) {
	if ended := ctx.Err(); ended != nil {
		return Decision{Err: ended} // the caller left: not a failure of the store
	}
	if l.fallback == nil || len(l.limits) == 0 {
		allowed := l.config.OnStoreError == FailOpen
		return Decision{Allowed: allowed, Source: SourcePolicy, Err: asStoreError(err)}
	}
	d = l.fallback.take(ctx, r, l.config.Timeout-l.firstTimeout)
	if d.Err == nil {
		d.Source, d.Err = SourceFallback, asStoreError(err)
		return d
	}
	if ended := ctx.Err(); ended != nil {
		return Decision{Err: ended}
	}
	return Decision{Source: SourcePolicy, Err: fallbackError(err, d.Err)}
}

// Reset deletes the counts of key under this rule, in the store and the fallback.
// After an error, [ErrStore], [ErrInvalid] or the context's, counts may remain.
func (l *Limiter) Reset(ctx context.Context, key string) error {
	defer l.waiting.Wake(key)
	return l.withTimeout(ctx, key, func(whole, first context.Context) error {
		err := l.ledger.Reset(first, key)
		if l.fallback != nil {
			err = errors.Join(err, l.fallback.ledger.Reset(whole, key))
		}
		return err
	})
}

// Usage returns the usage of each limit by the client named key, in the order of [Limiter.Limits]. It is
// not reported to the observer. Leased units are used; a full memstore may return more than was used,
// never less. The error matches [ErrInvalid] or [ErrStore], or is the context's.
// With a [Fallback], an ErrStore may come with the uses of the fallback.
func (l *Limiter) Usage(ctx context.Context, key string) (uses []Usage, err error) {
	err = l.withTimeout(ctx, key, func(whole, first context.Context) error {
		uses, err = l.usage(first, key)
		if err == nil || l.fallback == nil || ctx.Err() != nil {
			return err
		}
		var second error
		if uses, second = l.fallback.usage(whole, key); second != nil {
			return fallbackError(err, second)
		}
		return err
	})
	return uses, err
}

// withTimeout calls do with a context that ends with Config.Timeout, and one that ends with the first store's
// part of it. The error is that of the caller's context if that has ended.
func (l *Limiter) withTimeout(ctx context.Context, key string, do func(whole, first context.Context) error) error {
	r := Request{Key: key}
	if err := r.check(ctx, l.limits, l); err != nil {
		return err
	}
	whole, cancel := context.WithTimeoutCause(ctx, l.config.Timeout, ErrTimeout)
	defer cancel()
	first, cancel := context.WithTimeoutCause(whole, l.firstTimeout, ErrTimeout)
	defer cancel()
	err := do(whole, first)
	if err == nil {
		return nil
	}
	if ended := ctx.Err(); ended != nil {
		return ended
	}
	return asStoreError(err)
}

// since returns the time since start; 0 if start is zero.
func since(start time.Time) time.Duration {
	if start.IsZero() {
		return 0
	}
	return time.Since(start)
}

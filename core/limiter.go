package core

import (
	"context"
	"errors"
	"fmt"
	"reflect"
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

	// OnStoreError decides while the store cannot be asked: FailOpen, FailClosed
	// or what Fallback returns. Default FailOpen.
	OnStoreError FailurePolicy

	// Timeout is the most that a decision may wait for a store, the fallback
	// included; a fallback that is not in memory leaves the store half of it.
	// Default 100 ms. A timeout that a healthy store misses now and then hands
	// requests to the policy: leave room for several round trips to the store,
	// and for pauses of this process and of the store. A caller whose context is
	// cancelled leaves at once. If the timeout is a second or less, a store may keep
	// the caller until the store answers or the timeout has passed.
	Timeout time.Duration

	// Observer hears of every decision. Default none.
	Observer Observer
}

// Limiter decides requests. It is safe for concurrent use. [New] and
// [Limiter.Rule] make one; the zero Limiter cannot be used.
type Limiter struct {
	config       Config // as given, with defaults filled in
	rule         string // the name given to Rule; empty for a limiter of New
	limits       []Limit
	source                     // the rule, bound to the first store
	fallback     *fallback     // nil unless the policy is a Fallback
	firstTimeout time.Duration // the longest that the first store may take
}

// source is a rule bound to a store, and how the store is asked.
type source struct {
	counts  Counts
	bounded Bounded // counts if it implements Bounded, else nil
	waits   bool    // whether a call may wait for more than a lock: counts is not Immediate
}

// bind binds a rule to a store. It returns an error if the store returns neither
// Counts nor an error.
func bind(s Store, r Rule) (source, error) {
	counts, err := s.Bind(r)
	if err != nil {
		return source{}, err
	}
	if isNil(counts) {
		return source{}, fmt.Errorf("sash: Bind of the store %T returned neither Counts nor an error", s)
	}
	bounded, _ := counts.(Bounded)
	_, immediate := counts.(Immediate)
	return source{counts, bounded, !immediate}, nil
}

// New returns a limiter for c. It does not talk to the store, so a program
// starts while its store is down.
func New(c Config) (*Limiter, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.OnStoreError == nil {
		c.OnStoreError = FailOpen
	}
	return build(c, "", c.Limits)
}

// check returns an error that says what is wrong with the Config apart from its
// limits and its policy.
func (c *Config) check() error {
	if err := checkName("limiter", c.Name); err != nil {
		return err
	}
	if isNil(c.Store) {
		return fmt.Errorf("sash: Config.Store is %s: give a store, such as memstore.New() or redisstore.New(client)",
			nilName(c.Store))
	}
	if c.Timeout < 0 {
		return fmt.Errorf("sash: Config.Timeout is %v: it must be positive, or 0 for the default of %v",
			c.Timeout, DefaultTimeout)
	}
	if c.Observer != nil && isNil(c.Observer) {
		return fmt.Errorf("sash: Config.Observer is %s: give an observer, or leave the field out", nilName(c.Observer))
	}
	return nil
}

// isNil reports whether v is nil or holds a nil pointer, function or map. The
// methods of such a value would fail at the first request.
func isNil(v any) bool {
	if v == nil {
		return true
	}
	switch r := reflect.ValueOf(v); r.Kind() {
	case reflect.Pointer, reflect.Func, reflect.Map:
		return r.IsNil()
	}
	return false
}

// nilName describes a value for which isNil reports true, for an error message.
func nilName(v any) string {
	if v == nil {
		return "nil"
	}
	return fmt.Sprintf("a nil %T", v)
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
// for store errors; nil means [FailOpen]. It panics with the error of [New] on a
// policy that New would have refused.
func (l *Limiter) WithPolicy(policy FailurePolicy) *Limiter {
	c := l.config
	if policy == nil {
		policy = FailOpen
	}
	c.OnStoreError = policy
	return Must(build(c, l.rule, l.limits))
}

// build returns a limiter of a config that was checked and has its defaults. It
// checks the limits and the policy.
func build(c Config, rule string, limits []Limit) (*Limiter, error) {
	if c.Store == nil {
		return nil, errors.New("sash: the zero Limiter has no store: make a limiter with core.New")
	}
	limits, err := checkLimits(limits)
	if err != nil {
		return nil, err
	}
	l := &Limiter{config: c, rule: rule, limits: limits, firstTimeout: c.Timeout}
	if l.source, err = bind(c.Store, l.ruleWith(slices.Clone(limits))); err != nil {
		return nil, err
	}
	switch p := c.OnStoreError.(type) {
	case fixedPolicy:
		if p <= FailClosed {
			return l, nil
		}
	case fallbackPolicy:
		if l.fallback, err = p.bind(l); err != nil {
			return nil, err
		}
		if l.fallback.waits {
			l.firstTimeout /= 2 // leave the fallback time within the timeout
		}
		return l, nil
	}
	return nil, fmt.Errorf("sash: the policy for store errors is %T(%[1]v): give core.FailOpen, core.FailClosed "+
		"or what core.Fallback returns", c.OnStoreError)
}

// ruleWith returns the limiter's rule with other limits.
func (l *Limiter) ruleWith(limits []Limit) Rule {
	return Rule{Name: l.config.Name, Rule: l.rule, Limits: limits, Timeout: l.config.Timeout}
}

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
		d = l.askStores(ctx, r)
	} else {
		// The calls stand here and not in a method, because a Decision is so large
		// that each copy of it costs a measurable time.
		if l.bounded != nil {
			d, err = l.bounded.TakeWithin(ctx, l.firstTimeout, r.Key, r.Cost, !r.Peek)
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
		l.config.Observer.Observe(ctx, Event{
			Name: l.config.Name, Rule: l.rule, Label: r.Label, Key: r.Key, Cost: r.Cost, Peek: r.Peek, Decision: d,
		})
	}
	return d
}

// check returns an error if no store needs to be asked: the request is malformed,
// or its context has ended.
func (r *Request) check(ctx context.Context) error {
	switch {
	case r.Key == "":
		return errEmptyKey
	case r.Cost < 0:
		return errNegativeCost
	}
	return ctx.Err()
}

// askStores is Decide, without the observer, for a store that needs a context with
// a timeout and for a limiter with a fallback. The request must have been checked.
func (l *Limiter) askStores(ctx context.Context, r Request) Decision {
	whole := ctx
	if l.fallback != nil && l.fallback.waits {
		var cancel context.CancelFunc
		whole, cancel = context.WithTimeoutCause(ctx, l.config.Timeout, ErrTimeout)
		defer cancel()
	}
	var d Decision
	var err error
	if l.fallback != nil && l.fallback.mayCount() {
		d, err = l.takeLowered(whole, r)
	} else {
		d, err = l.takeFirst(whole, &l.source, r, !r.Peek)
	}
	if err != nil {
		return l.onStoreError(ctx, whole, r, err)
	}
	d.Err = nil
	return d
}

// takeFirst asks the first store, to which s must be bound, for at most
// firstTimeout.
func (l *Limiter) takeFirst(ctx context.Context, s *source, r Request, charge bool) (Decision, error) {
	if s.bounded != nil {
		return s.bounded.TakeWithin(ctx, l.firstTimeout, r.Key, r.Cost, charge)
	}
	if s.waits {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, l.firstTimeout, ErrTimeout)
		defer cancel()
	}
	return s.counts.Take(ctx, r.Key, r.Cost, charge)
}

// onStoreError returns the decision of the policy after the first store has failed
// with err. ctx is the context of the caller; bounded ends with the limiter's
// timeout too.
func (l *Limiter) onStoreError(ctx, bounded context.Context, r Request, err error) Decision {
	if ended := ctx.Err(); ended != nil {
		return Decision{Err: ended} // the caller left, which says nothing about the store
	}
	err = asStoreError(err)
	if l.fallback == nil {
		return Decision{Allowed: l.config.OnStoreError == FailurePolicy(FailOpen), Err: err}
	}
	d, second := l.fallback.take(bounded, r)
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
// some counts may remain. A context that has ended before the call resets
// nothing, whatever the store.
func (l *Limiter) Reset(ctx context.Context, key string) error {
	if key == "" {
		return errEmptyKey
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	whole, cancel := context.WithTimeoutCause(ctx, l.config.Timeout, ErrTimeout)
	defer cancel()
	first, cancel := context.WithTimeoutCause(whole, l.firstTimeout, ErrTimeout)
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

// asStoreError returns err, wrapped if need be so that it matches ErrStore. An error
// that matches already is returned as it is, so that a flood allocates nothing.
func asStoreError(err error) error {
	if errors.Is(err, ErrStore) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrStore, err)
}

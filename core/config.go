package core

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/sashlimit/sash/internal/errs"
)

// Config holds the limits of a [Limiter] and the store that counts.
type Config struct {
	// Name is part of the identity of every count: limiters of one name on the same data share their counts, as
	// replicas do. It may be empty.
	Name  string
	Store Store // required

	// Limits count each request together, or one refuses it and none counts it. Without limits the limiter is for
	// [Limiter.Rule] and [Limiter.WithLimits]: its own decisions are an [ErrInvalid].
	Limits []Limit

	OnStoreError Policy // decides while the store fails; default FailOpen

	// Timeout is the maximum time that a decision waits for stores; a fallback that is not in memory has half of it.
	// Default 100 ms, at least 10 us. Leave room for several round trips and pauses: the policy decides the
	// requests that a healthy store answers too late. A store may keep a caller whose context is cancelled for a
	// Timeout of up to a second.
	Timeout time.Duration

	// Observer gets every decision. Default [LogErrors], which logs limits that are not enforced; [Silent] logs
	// nothing.
	Observer Observer
	Quiet    []string // codes of notices to leave out, such as "large-log"
}

// New returns a limiter for c. The store need not be up.
func New(c Config) (*Limiter, error) {
	if err := checkName("limiter", c.Name); err != nil {
		return nil, err
	}
	if err := c.check(); err != nil {
		return nil, addNames(c.Name, "", err)
	}
	c.Timeout = cmp.Or(c.Timeout, DefaultTimeout)
	c.OnStoreError = cmp.Or(c.OnStoreError, FailOpen)
	if c.Observer == nil {
		c.Observer = newErrorLog(slog.Default, time.Minute)
	}
	c.Quiet = slices.Clone(c.Quiet)
	l, err := build(c, "", c.Limits, new(sync.Map))
	if err == nil {
		l.noticeLargeLog()
	}
	return l, err
}

// check checks the Config except for its name, its limits and its policy.
func (c *Config) check() error {
	if errs.IsNil(c.Store) {
		return fmt.Errorf("sash: Config.Store is %s: give a store, such as memstore.New() or redisstore.New(client)",
			errs.NilName(c.Store))
	}
	if c.Timeout != 0 && c.Timeout < minTimeout {
		return fmt.Errorf("sash: Config.Timeout is %v: it must be at least %v, or 0 for the default of %v; "+
			"a number without a unit is nanoseconds", c.Timeout, minTimeout, DefaultTimeout)
	}
	if c.Observer != nil && errs.IsNil(c.Observer) {
		return fmt.Errorf("sash: Config.Observer is %s: give an observer, or leave the field out",
			errs.NilName(c.Observer))
	}
	if wrong, ok := c.Observer.(invalidObserver); ok {
		return wrong.err
	}
	return checkQuiet(c.Quiet)
}

// Must returns v, or panics if err is not nil. It is for the start of a program.
func Must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// build returns a limiter for a checked config with its defaults. It checks the limits and the policy. An error has the
// names of the limiter and the rule.
func build(c Config, rule string, limits []Limit, noticeCodes *sync.Map) (*Limiter, error) {
	if c.Store == nil {
		return nil, errors.New("sash: the zero Limiter has no store: make a limiter with core.New")
	}
	l := &Limiter{config: c, rule: rule, firstTimeout: c.Timeout, noticeCodes: noticeCodes}
	l.log, _ = c.Observer.(*errorLog)
	l.observed = l.log == nil && c.Observer != Silent
	if err := l.bindAll(limits); err != nil {
		return nil, addNames(c.Name, rule, err)
	}
	return l, nil
}

// bindAll binds the limits to the store and to the fallback.
func (l *Limiter) bindAll(limits []Limit) (err error) {
	if len(limits) > 0 || l.rule != "" {
		if limits, err = checkLimits(limits); err != nil {
			return err
		}
	}
	b := Binding{Name: l.config.Name, Rule: l.rule, Limits: limits, Timeout: l.config.Timeout}
	if _, ok := l.config.Observer.(NoticeObserver); ok {
		b.Notice = func(code, text string) { l.Notice(context.Background(), code, text) }
	}
	if l.boundRule, err = bind(l.config.Store, b); err != nil {
		return err
	}
	switch p := l.config.OnStoreError.(type) {
	case fixedPolicy:
		return nil
	case fallbackPolicy:
		if l.fallback, err = p.bind(l.config.Store, b); err != nil {
			return err
		}
		if l.fallback.mayWait {
			l.firstTimeout /= 2 // leave the fallback time within the timeout
		}
		return nil
	}
	return fmt.Errorf("sash: the policy for store errors is %T(%[1]v): give core.FailOpen, core.FailClosed "+
		"or what core.Fallback returns", l.config.OnStoreError)
}

// boundRule is a rule bound to a store.
type boundRule struct {
	limits  []Limit
	ledger  Ledger
	mayWait bool // ledger is not Immediate: a call may wait for a server
}

// bind binds a rule to a store. It returns an error if the store returns neither a Ledger nor an error.
func bind(s Store, b Binding) (boundRule, error) {
	if len(b.Limits) == 0 {
		return boundRule{}, nil // no request reaches a ledger
	}
	limits := slices.Clone(b.Limits)
	counts, err := s.Bind(b)
	if err == nil && errs.IsNil(counts) {
		err = fmt.Errorf("sash: Bind of the store %T returned neither a Ledger nor an error", s)
	}
	_, immediate := counts.(Immediate)
	return boundRule{limits, counts, !immediate}, err
}

// usage returns the usage of all limits, with Limit and Remaining filled in.
func (b *boundRule) usage(ctx context.Context, key string) ([]Usage, error) {
	uses, err := b.ledger.Usage(ctx, key)
	if err != nil {
		return nil, err
	}
	if len(uses) != len(b.limits) {
		return nil, fmt.Errorf("sash: Usage of %T returned %d uses for %d limits", b.ledger, len(uses), len(b.limits))
	}
	for i, limit := range b.limits {
		uses[i].Limit = limit
		uses[i].Remaining = max(0, limit.Requests-uses[i].Used)
	}
	return uses, nil
}

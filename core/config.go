package core

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/sashlimit/sash/internal/errs"
)

// Config says what a [Limiter] enforces and where it counts.
type Config struct {
	// Name is part of the identity of every count: limiters of one name on the same data share their counts, as
	// replicas do. It may be empty.
	Name  string
	Store Store // required

	// Limits count each request together, or one refuses it and none counts it. Without limits the limiter is for
	// [Limiter.Rule] alone: to ask it for a decision is an [ErrInvalid].
	Limits []Limit

	OnStoreError Policy // decides while the store cannot be asked; default FailOpen

	// Timeout is the most that a decision may wait for stores; a fallback that is not in memory has half of it.
	// Default 100 ms, at least 10 us. Leave room for several round trips and pauses: what a healthy store misses, the
	// policy decides. A store may keep a caller whose context is cancelled for a Timeout of up to a second.
	Timeout time.Duration

	// Observer is told of every decision. Default [LogErrors]: what is not enforced is never silent. [Silent] writes none.
	Observer Observer
	Quiet    []string // codes of notices that are not to be said, such as "large-log"
}

// New returns a limiter for c. The store may be down meanwhile.
func New(c Config) (*Limiter, error) {
	if err := checkName("limiter", c.Name); err != nil {
		return nil, err
	}
	if err := c.check(); err != nil {
		return nil, constructionError(c.Name, "", err)
	}
	c.Timeout = cmp.Or(c.Timeout, DefaultTimeout)
	c.OnStoreError = cmp.Or(c.OnStoreError, FailOpen)
	if c.Observer == nil {
		c.Observer = newErrorLog(slog.Default, time.Minute)
	}
	c.Quiet = slices.Clone(c.Quiet)
	return build(c, "", c.Limits, new(sharedState))
}

// check returns an error that says what is wrong with the Config apart from its
// name, its limits and its policy.
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
		return fmt.Errorf("sash: Config.Observer is %s: give an observer, or leave the field out", errs.NilName(c.Observer))
	}
	if wrong, ok := c.Observer.(wrongObserver); ok {
		return wrong.err
	}
	return checkQuiet(c.Quiet)
}

// Must returns v, or panics with err: for what is made while a program starts.
func Must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// build returns a limiter of a config that was checked and has its defaults. It
// checks the limits and the policy. An error names the limiter and the rule.
func build(c Config, rule string, limits []Limit, state *sharedState) (*Limiter, error) {
	if c.Store == nil {
		return nil, errors.New("sash: the zero Limiter has no store: make a limiter with core.New")
	}
	l := &Limiter{config: c, rule: rule, firstTimeout: c.Timeout, shared: state}
	l.setObserver()
	if err := l.bindAll(limits); err != nil {
		return nil, constructionError(c.Name, rule, err)
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
	if l.notices != nil {
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
		if l.fallback.waits {
			l.firstTimeout /= 2 // leave the fallback time within the timeout
		}
		return nil
	}
	return fmt.Errorf("sash: the policy for store errors is %T(%[1]v): give core.FailOpen, core.FailClosed "+
		"or what core.Fallback returns", l.config.OnStoreError)
}

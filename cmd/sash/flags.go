package main

import (
	"errors"
	"flag"
	"io"
	"strings"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore"
)

// settings are the flags of all commands.
type settings struct {
	*flag.FlagSet
	url, prefix string
	timeout     time.Duration
	json        bool
}

// newSettings returns the flags that all commands have.
func newSettings() *settings {
	s := &settings{FlagSet: flag.NewFlagSet("sash", flag.ContinueOnError)}
	s.SetOutput(io.Discard) // run writes the error, and help the help
	s.StringVar(&s.url, "redis", "", "")
	s.StringVar(&s.prefix, "prefix", redisstore.DefaultPrefix, "")
	s.DurationVar(&s.timeout, "timeout", 5*time.Second, "")
	s.BoolVar(&s.json, "json", false, "")
	return s
}

// parse reads the arguments, of which up to positional are not flags. It reports whether
// the help is asked for.
func (s *settings) parse(args []string, positional int) (helps bool, err error) {
	switch err := s.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return true, nil
	case err != nil:
		return false, wrongUsage("%w", err)
	case s.NArg() > positional: // an argument may be a URL with a password, so none is quoted
		return false, wrongUsage("there is an argument too many, number %d after the flags: the flags come first, "+
			"and a text with blanks, such as that of a limit, stands in quotes", positional+1)
	case s.timeout <= 0:
		return false, wrongUsage("-timeout %v: give a time above 0, such as 5s", s.timeout)
	}
	return false, nil
}

// open returns the store that the flags or REDIS_URL name. It does not talk to Redis.
func (s *settings) open(sys system) (*redisstore.Store, error) {
	if s.url == "" {
		s.url = sys.getenv("REDIS_URL")
	}
	if s.url == "" {
		return nil, wrongUsage("no Redis is named: give its URL in REDIS_URL or with -redis, " +
			"such as redis://127.0.0.1:6379/0")
	}
	store, err := redisstore.Open(s.url, redisstore.WithPrefix(s.prefix))
	if err != nil {
		return nil, &usageError{err}
	}
	return store, nil
}

// rule are the flags that name a rule and its limits.
type rule struct {
	name, rule string
	limits     []core.Limit
}

// define defines the flags.
func (r *rule) define(flags *flag.FlagSet) {
	flags.StringVar(&r.name, "name", "", "")
	flags.StringVar(&r.rule, "rule", "", "")
	flags.Func("limit", "", func(text string) error {
		limit, err := core.ParseLimit(text)
		r.limits = append(r.limits, limit)
		if err != nil {
			return errors.New(strings.TrimPrefix(err.Error(), "sash: ")) // wrongUsage says it
		}
		return nil
	})
}

// limiter returns a limiter on store, as the program that counts has it.
func (r *rule) limiter(store core.Store, timeout time.Duration) (*core.Limiter, error) {
	if len(r.limits) == 0 {
		return nil, wrongUsage("no limit is given: give each limit of the rule, such as -limit 5/15m")
	}
	limiter, err := core.New(core.Config{
		Name: r.name, Store: store, Limits: r.limits, Timeout: timeout,
		OnStoreError: core.FailClosed, Observer: core.Silent,
	})
	if err == nil && r.rule != "" {
		limiter, err = limiter.Rule(r.rule, r.limits...)
	}
	if err != nil {
		return nil, &usageError{err}
	}
	return limiter, nil
}

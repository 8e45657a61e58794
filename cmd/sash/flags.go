package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore"
	"github.com/sashlimit/sash/internal/report"
)

// settings are the flags of a command.
type settings struct {
	*flag.FlagSet
	url, prefix string
	timeout     time.Duration
	json        bool

	// The flags of usage and reset, besides the flags of report.Kinds.
	name, rule  string
	limits      []core.Limit
	apiKeyStdin bool
}

// newSettings returns the flags that all commands have.
func newSettings() *settings {
	s := &settings{FlagSet: flag.NewFlagSet("sash", flag.ContinueOnError)}
	s.SetOutput(io.Discard) // run writes the error and the help
	s.StringVar(&s.url, "redis", "", "")
	s.StringVar(&s.prefix, "prefix", redisstore.DefaultPrefix, "")
	s.DurationVar(&s.timeout, "timeout", 5*time.Second, "")
	s.BoolVar(&s.json, "json", false, "")
	return s
}

// defineClient defines the flags that name a rule and a client.
func (s *settings) defineClient() {
	s.StringVar(&s.name, "name", "", "")
	s.StringVar(&s.rule, "rule", "", "")
	s.Func("limit", "", func(text string) error {
		limit, err := core.ParseLimit(text)
		s.limits = append(s.limits, limit)
		if err != nil {
			return errors.New(strings.TrimPrefix(err.Error(), "sash: ")) // wrongUsage says it
		}
		return nil
	})
	s.BoolVar(&s.apiKeyStdin, "api-key-stdin", false, "")
	for _, name := range append(report.Kinds, report.Prefix) {
		s.String(name, "", "")
	}
}

// open parses the arguments, and returns the store of the flags or REDIS_URL. It sends no request.
func (s *settings) open(args []string, sys system) (*redisstore.Store, error) {
	switch err := s.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return nil, err
	case err != nil:
		return nil, wrongUsage("%w", err)
	case s.NArg() > 0: // an argument may be a URL with a password, so none is quoted
		return nil, wrongUsage("an argument is no flag: a URL is given with -redis, and a text with blanks, " +
			"such as that of a limit, stands in quotes")
	case s.timeout <= 0:
		return nil, wrongUsage("-timeout %v: give a time above 0, such as 5s", s.timeout)
	}
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

// limiter returns a limiter on store like that of the program that counts.
func (s *settings) limiter(store core.Store, timeout time.Duration) (*core.Limiter, error) {
	if len(s.limits) == 0 {
		return nil, wrongUsage("no limit is given: give each limit of the rule, such as -limit 5/15m")
	}
	limiter, err := core.New(core.Config{
		Name: s.name, Store: store, Limits: s.limits, Timeout: timeout,
		OnStoreError: core.FailClosed, Observer: core.Silent,
	})
	if err == nil && s.rule != "" {
		limiter, err = limiter.Rule(s.rule, s.limits...)
	}
	if err != nil {
		return nil, &usageError{err}
	}
	return limiter, nil
}

// client returns the key of the client that the flags name.
func (s *settings) client(stdin io.Reader) (string, error) {
	named := url.Values{}
	s.Visit(func(f *flag.Flag) { named.Add(f.Name, f.Value.String()) })
	if s.apiKeyStdin {
		text, err := io.ReadAll(io.LimitReader(stdin, report.MaxAPIKey+100))
		if err != nil {
			return "", fmt.Errorf("sash: the API key could not be read: %w", err)
		}
		key, err := report.APIKey(string(text))
		if err != nil {
			return "", wrongUsage("-api-key-stdin: on the standard input, %w", err)
		}
		named.Add("key", key)
	}
	key, err := report.ClientKey(named)
	if err != nil {
		return "", wrongUsage("%w", err)
	}
	return key, nil
}

package guard

import (
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/headers"
)

// Config holds what the options of package nethttp set. It does not change after construction. A function is nil
// without its option. An argument c is the context of an adapter's framework, or nil.
type Config struct {
	// Which requests are decided, and as what.
	SkipPaths []SkippedPath
	Skip      []func(r *http.Request, c any) bool
	SkipKeys  []func(string) bool
	Cost      func(r *http.Request, c any) int
	Label     func(r *http.Request, c any) string
	Limits    func(r *http.Request, key string) ([]core.Limit, error)
	Limiter   func(r *http.Request, c any, key string) (*core.Limiter, error)
	Together  []Pair
	Shadow    func() bool

	// What is written about a decision.
	Formats []headers.Format
	Jitter  time.Duration // see WithRetryJitter
	Outage  time.Duration // see WithOutageRetryAfter
	Refusal func(http.ResponseWriter, *http.Request, core.Decision)

	// What is asked after the handler, and whether the handler finds the Admission in its context.
	CountWhen func(r *http.Request, status int) bool
	CostAfter func(r *http.Request, status int, bytes int64) int
	InContext bool

	Adapter any // what the options of an adapter change, as a pointer; nil without an adapter
}

// Pair is a limiter, and the function that names the client for it.
type Pair struct {
	Limiter *core.Limiter
	Key     func(*http.Request) (string, error)
}

// SkippedPath is one argument of SkipPaths.
type SkippedPath struct{ Method, Path string }

// matches reports whether the request is skipped. A path for GET matches HEAD too.
func (s SkippedPath) matches(r *http.Request) bool {
	return s.Path == r.URL.Path && r.URL.RawPath == "" &&
		(s.Method == r.Method || s.Method == http.MethodGet && r.Method == http.MethodHead)
}

// Skips reports whether an option excludes the request from the limit.
func (c *Config) Skips(r *http.Request, context any) bool {
	return slices.ContainsFunc(c.SkipPaths, func(s SkippedPath) bool { return s.matches(r) }) ||
		slices.ContainsFunc(c.Skip, func(skip func(*http.Request, any) bool) bool { return skip(r, context) })
}

// skipsKey reports whether an option exempts the client named key.
func (c *Config) skipsKey(key string) bool {
	return slices.ContainsFunc(c.SkipKeys, func(skip func(string) bool) bool { return skip(key) })
}

// looks reports whether an option looks at what the handler has done.
func (c *Config) looks() bool { return c.CountWhen != nil || c.CostAfter != nil }

// check returns an error if options about what happens after the handler do not go together.
func (c *Config) check() error {
	if c.CountWhen != nil && c.CostAfter != nil {
		return errors.New("sash: CountWhen and CostAfter do not go together: " +
			"give CostAfter alone, with a function that returns 0 for a request that is not to count")
	}
	if len(c.Together) > 0 && (c.looks() || c.InContext) {
		return errors.New("sash: Together does not go together with CountWhen, CostAfter and WithDecisionInContext: " +
			"what all limits have counted stays counted; give one guard Together, and another inside it the other option")
	}
	return nil
}

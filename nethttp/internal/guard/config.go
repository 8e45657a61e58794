package guard

import (
	"errors"
	"net/http"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/headers"
)

// Config holds what the options of package nethttp set. It does not change after construction.
type Config struct {
	Deciding   Deciding
	Responding Responding
	Following  Following

	Adapter any // what the options of an adapter change, as a pointer; nil without an adapter
}

// Deciding says which requests are decided, and as what. A field is nil without its option.
type Deciding struct {
	SkipPaths []SkippedPath
	Skip      []func(*http.Request) bool
	SkipKeys  []func(string) bool
	Cost      func(*http.Request) int
	Label     func(*http.Request) string
	Limits    func(*http.Request) ([]core.Limit, error)
	Limiter   func(*http.Request) (*core.Limiter, error)
	All       []Pair
	Shadow    func() bool
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
	return s.Path == r.URL.Path &&
		(s.Method == r.Method || s.Method == http.MethodGet && r.Method == http.MethodHead)
}

// Skips reports whether an option excludes the request from the limit.
func (c *Deciding) Skips(r *http.Request) bool {
	if r.URL.RawPath == "" {
		for _, s := range c.SkipPaths {
			if s.matches(r) {
				return true
			}
		}
	}
	for _, skip := range c.Skip {
		if skip(r) {
			return true
		}
	}
	return false
}

// skipsKey reports whether an option exempts the client named key.
func (c *Deciding) skipsKey(key string) bool {
	for _, skip := range c.SkipKeys {
		if skip(key) {
			return true
		}
	}
	return false
}

// costOf returns how many units r costs.
func (c *Deciding) costOf(r *http.Request) int64 {
	if c.Cost == nil {
		return 1
	}
	return int64(c.Cost(r))
}

// Responding says what is written about a decision.
type Responding struct {
	Formats []headers.Format
	Jitter  time.Duration                                           // see WithJitter
	Outage  time.Duration                                           // see WithRetryAfter
	Refusal func(http.ResponseWriter, *http.Request, core.Decision) // nil: the function Refuse
}

// Following says what is asked after the handler. A field is nil without its option.
type Following struct {
	CountWhen func(r *http.Request, status int) bool
	CostAfter func(r *http.Request, status int, bytes int64) int
	InContext bool // whether the handler finds the Admission in its context
}

// looks reports whether an option looks at what the handler has done.
func (c *Following) looks() bool { return c.CountWhen != nil || c.CostAfter != nil }

// check returns an error if options about what happens after the handler do not go together.
func (c *Config) check() error {
	f := &c.Following
	if f.CountWhen != nil && f.CostAfter != nil {
		return errors.New("sash: CountWhen and CostAfter do not go together: " +
			"give CostAfter alone, with a function that returns 0 for a request that is not to count")
	}
	if len(c.Deciding.All) > 0 && (f.looks() || f.InContext) {
		return errors.New("sash: All does not go together with CountWhen, CostAfter and WithDecisionInContext: " +
			"what all limits have counted stays counted; give one guard All, and another inside it the other option")
	}
	return nil
}

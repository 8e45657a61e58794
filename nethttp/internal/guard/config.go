package guard

import (
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/headers"
)

// Config holds the values of the options of package nethttp. It does not change after construction. A function is nil
// without its option. An argument c is the context of an adapter's framework, or nil.
type Config struct {
	// The requests: which of them are skipped, and their key, cost, label and limits.
	Skip     []func(r *http.Request, c any) bool
	SkipKeys []func(string) bool
	Cost     func(r *http.Request, c any) int
	Label    func(r *http.Request, c any) string
	Limits   func(r *http.Request, key string) ([]core.Limit, error)
	Limiter  func(r *http.Request, c any, key string) (*core.Limiter, error)
	Pairs    []Pair
	Shadow   func() bool

	// The response.
	Formats          []headers.Format
	Jitter           time.Duration // maximum of WithRetryJitter; 0 without it
	OutageRetryAfter time.Duration // minimum of WithOutageRetryAfter
	Refusal          func(w http.ResponseWriter, r *http.Request, c any, d core.Decision) error

	// The handler: the functions that settle its request, and whether its context holds the Admission.
	CountWhen         func(r *http.Request, status int) bool
	CostAfter         func(r *http.Request, status int, bytes int64) int
	DecisionInContext bool

	Adapter any // pointer to the adapter.Framework; nil without an adapter
}

// Pair is a limiter and its key function.
type Pair struct {
	Limiter *core.Limiter
	Key     func(*http.Request) (string, error)
}

// IsSkipped reports whether an option excludes the request from the limit.
func (c *Config) IsSkipped(r *http.Request, context any) bool {
	return slices.ContainsFunc(c.Skip, func(skip func(*http.Request, any) bool) bool { return skip(r, context) })
}

// isSkippedKey reports whether an option exempts the client with this key.
func (c *Config) isSkippedKey(key string) bool {
	return slices.ContainsFunc(c.SkipKeys, func(skip func(string) bool) bool { return skip(key) })
}

// needsResponse reports whether an option needs the status or the size of the response.
func (c *Config) needsResponse() bool { return c.CountWhen != nil || c.CostAfter != nil }

// check returns an error if two options contradict each other.
func (c *Config) check() error {
	if c.CountWhen != nil && c.CostAfter != nil {
		return errors.New("sash: CountWhen and CostAfter do not go together: " +
			"give CostAfter alone, with a function that returns 0 for a request that is not to count")
	}
	if len(c.Pairs) > 0 && (c.needsResponse() || c.DecisionInContext) {
		return errors.New("sash: DecideAll does not go together with CountWhen, CostAfter and WithDecisionInContext: " +
			"a request that all limits have counted stays counted; give one guard DecideAll, " +
			"and an inner guard the other option")
	}
	return nil
}

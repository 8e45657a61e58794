package nethttp

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/headers"
)

// Option is an option of [New], [NewDecider], [Middleware] and the adapters.
type Option func(*config) error

type config struct {
	paths   []string
	skip    []func(*http.Request) bool
	cost    func(*http.Request) int                                 // nil: 1
	refuse  func(http.ResponseWriter, *http.Request, core.Decision) // nil: Refuse
	formats []headers.Format

	settings any // of an adapter: what its own options change
}

// SkipPaths excludes the paths from the limit: their requests touch no store
// and get no fields. Each starts with a slash and is compared byte for byte
// with r.URL.Path as it is where the guard stands, behind an http.StripPrefix
// without the prefix. "/health" excludes neither /healthz nor //health nor
// /api/../health.
//
// A path that is escaped in an unusual way, such as /%68ealth or
// /api/..%2fhealth, is never excluded (r.URL.RawPath is not empty then): routers
// disagree about which page that is. Several SkipPaths add up.
func SkipPaths(paths ...string) Option {
	paths = slices.Clone(paths)
	return func(c *config) error {
		for _, p := range paths {
			if !strings.HasPrefix(p, "/") {
				return fmt.Errorf("sash: SkipPaths(%q): a path starts with a slash; for anything else use nethttp.Skip", p)
			}
		}
		c.paths = append(c.paths, paths...)
		return nil
	}
}

// Skip excludes the requests for which skip returns true: they touch no store
// and get no fields. It is called by many goroutines at once. Several Skips, and
// SkipPaths, add up.
func Skip(skip func(*http.Request) bool) Option {
	return func(c *config) error {
		if skip == nil {
			return errors.New("sash: Skip(nil): give a func(*http.Request) bool, or leave the option out")
		}
		c.skip = append(c.skip, skip)
		return nil
	}
}

// WithHeaders sets the formats of the limit fields, instead of the default
// [headers.Classic]. WithHeaders() writes none; Retry-After remains.
func WithHeaders(formats ...headers.Format) Option {
	formats = slices.Clone(formats)
	return func(c *config) error {
		if slices.Contains(formats, nil) {
			return errors.New("sash: WithHeaders was given a nil format: use headers.Classic, headers.IETF, or none at all for no fields")
		}
		c.formats = formats
		return nil
	}
}

// WithRefusal sets what writes the response to a refused request, whatever the
// reason, instead of the function [Refuse]. It writes a status: [Status] tells
// which, d.Err why. Limit fields, Retry-After and Cache-Control are set. If it
// writes nothing, Refuse does. d.Err may quote the client's input: log it, do not
// send it.
func WithRefusal(refuse func(w http.ResponseWriter, r *http.Request, d core.Decision)) Option {
	return func(c *config) error {
		if refuse == nil {
			return errors.New("sash: WithRefusal(nil): give a function, or leave the option out for nethttp.Refuse")
		}
		c.refuse = refuse
		return nil
	}
}

// WithCost sets how many units a request costs, instead of 1. A cost of 0 is
// always admitted and counts nothing; a negative one is answered with 500. It is
// called by many goroutines at once and must not read the body.
func WithCost(cost func(*http.Request) int) Option {
	return func(c *config) error {
		if cost == nil {
			return errors.New("sash: WithCost(nil): give a func(*http.Request) int, or leave the option out for a cost of 1")
		}
		c.cost = cost
		return nil
	}
}

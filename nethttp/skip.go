package nethttp

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"github.com/sashlimit/sash/nethttp/internal/guard"
)

// SkipPaths excludes requests from the limit by path: they touch no store and
// get no fields. An argument is a path, or a method, one space and a path, as in
// the patterns of [http.ServeMux]:
//
//	nethttp.SkipPaths("/health", "POST /hook", "OPTIONS /graphql")
//
// "/health" and "GET /health" both exclude GET and HEAD, and no other method: a
// POST to the same path may be for another handler, such as a catch-all. Any
// other method is excluded alone. The routers of chi, gin and echo do not answer
// HEAD by a route for GET: there a HEAD may reach a catch-all without a limit,
// unless the path has a route for HEAD too. To exclude GET alone, use [Skip].
//
// Methods are compared byte for byte with r.Method. Paths are compared byte for
// byte with r.URL.Path as it is where the guard stands, behind an
// http.StripPrefix without the prefix. "/health" excludes neither /healthz nor
// //health nor /api/../health. There are no wildcards: an argument with "*", "{"
// or "?" is an error of construction, since it would never match. So is one that is
// escaped, such as "/caf%C3%A9" for "/café", or that ends with a blank.
//
// A path that is escaped in an unusual way, such as /%68ealth or
// /api/..%2fhealth, is never excluded (r.URL.RawPath is not empty then): routers
// disagree about which page that is. Several SkipPaths add up.
func SkipPaths(paths ...string) Option {
	paths = slices.Clone(paths)
	return option(func(c *guard.Config) error {
		for _, p := range paths {
			s, err := parseSkippedPath(p)
			if err != nil {
				return fmt.Errorf("sash: SkipPaths(%q): %w", p, err)
			}
			c.SkipPaths = append(c.SkipPaths, s)
		}
		return nil
	})
}

// parseSkippedPath returns the method and the path of an argument of SkipPaths.
func parseSkippedPath(given string) (s guard.SkippedPath, err error) {
	s = guard.SkippedPath{Method: http.MethodGet, Path: given}
	if method, path, found := strings.Cut(given, " "); found && given[0] != '/' {
		s = guard.SkippedPath{Method: method, Path: path}
	}
	plain, err := url.PathUnescape(s.Path)
	isMethod := s.Method != "" && strings.Trim(s.Method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-") == ""
	switch {
	case !isMethod || !strings.HasPrefix(s.Path, "/"):
		return s, errors.New(`give a path that begins with a slash, such as "/health", or a method in capital letters, ` +
			`one space and a path, such as "POST /hook"; for anything else use nethttp.Skip`)
	case strings.ContainsAny(s.Path, "*{?"):
		return s, errors.New("paths are compared byte for byte, without wildcards and queries: use nethttp.Skip, " +
			"with a function that calls strings.HasPrefix(r.URL.Path, ...) for example")
	case strings.TrimSpace(s.Path) != s.Path || strings.ContainsFunc(s.Path, unicode.IsControl):
		return s, errors.New("a path has neither a blank at its end nor control characters: leave them out")
	case err == nil && plain != s.Path:
		return s, fmt.Errorf("paths are compared as r.URL.Path has them, without escapes: "+
			"give %q, or use nethttp.Skip", plain)
	}
	return s, nil
}

// Skip excludes the requests for which skip returns true: they touch no store
// and get no fields. It is called by many goroutines at once. Several Skips, and
// SkipPaths, add up.
func Skip(skip func(*http.Request) bool) Option {
	return given("Skip", skip, func(c *guard.Config) {
		c.Skip = append(c.Skip, func(r *http.Request, _ any) bool { return skip(r) })
	})
}

// SkipKeys exempts clients by their names: a client is not limited if skip returns true for
// its key. The request touches no store and gets no fields; the observer gets its event, with
// the Source core.SourceSkipped and a cost of 0. skip is called by many goroutines at once.
// Several SkipKeys add up.
//
// The key is that of the guard's key function, so that a client is exempt by no other name
// than the one it would be counted by. To exempt networks, see [keyfuncs.Addr].
func SkipKeys(skip func(key string) bool) Option {
	return given("SkipKeys", skip, func(c *guard.Config) { c.SkipKeys = append(c.SkipKeys, skip) })
}

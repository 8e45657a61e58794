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

// SkipPaths excludes requests from the limit by path: they use no store and get no fields. An argument is a path, or a
// method, one space and a path, as in the patterns of [http.ServeMux]:
//
//	nethttp.SkipPaths("/health", "POST /hook", "OPTIONS /graphql")
//
// "/health" and "GET /health" both exclude GET and HEAD, and no other method: a POST to the same path may be for
// another handler, such as a catch-all. Any other method is excluded alone. The routers of chi, gin and echo do not
// answer HEAD by a route for GET: there a HEAD may reach a catch-all without a limit, unless the path has a route for
// HEAD too. To exclude GET alone, use [Skip].
//
// Methods and paths are compared byte for byte with r.Method and r.URL.Path, as the guard gets them: behind an
// http.StripPrefix without the prefix. "/health" excludes neither /healthz nor //health nor /api/../health. There are
// no wildcards: an argument with "*", "{" or "?" is rejected, since it is almost always meant as a pattern or a query.
// So is one with escapes, such as "/caf%C3%A9" for "/café", or with a blank at its end.
//
// A request whose r.URL.RawPath is not empty is never skipped: its path has unusual escapes, as /%68ealth and
// /api/..%2fhealth have, or characters such as ( ) ! that net/url would write otherwise. Routers disagree about which
// route it matches. Several SkipPaths add up.
func SkipPaths(paths ...string) Option {
	paths = slices.Clone(paths)
	return option(func(c *guard.Config) error {
		for _, p := range paths {
			method, path, err := parseSkippedPath(p)
			if err != nil {
				return fmt.Errorf("sash: SkipPaths(%q): %w", p, err)
			}
			c.Skip = append(c.Skip, func(r *http.Request, _ any) bool {
				return r.URL.Path == path && r.URL.RawPath == "" &&
					(r.Method == method || r.Method == http.MethodHead && method == http.MethodGet)
			})
		}
		return nil
	})
}

// parseSkippedPath returns the method and the path of an argument of SkipPaths.
func parseSkippedPath(arg string) (method, path string, err error) {
	method, path, found := strings.Cut(arg, " ")
	if !found || arg[0] == '/' {
		method, path = http.MethodGet, arg
	}
	plain, invalid := url.PathUnescape(path)
	isMethod := method != "" && strings.Trim(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-") == ""
	switch {
	case !isMethod || !strings.HasPrefix(path, "/"):
		err = errors.New(`give a path that begins with a slash, such as "/health", or a method in capital letters, ` +
			`one space and a path, such as "POST /hook"; for anything else use nethttp.Skip`)
	case strings.ContainsAny(path, "*{?"):
		err = errors.New("paths are compared byte for byte, without wildcards and queries: use nethttp.Skip, " +
			"with a function that calls strings.HasPrefix(r.URL.Path, ...) for example")
	case strings.TrimSpace(path) != path || strings.ContainsFunc(path, unicode.IsControl):
		err = errors.New("a path has neither a blank at its end nor control characters: leave them out")
	case invalid == nil && plain != path:
		err = fmt.Errorf("paths are compared as r.URL.Path has them, without escapes: "+
			"give %q, or use nethttp.Skip", plain)
	}
	return method, path, err
}

// Skip excludes the requests for which skip returns true: they use no store and get no fields. skip is called by many
// goroutines at once. Several Skip and SkipPaths add up.
func Skip(skip func(*http.Request) bool) Option {
	return withFunc("Skip", skip, func(c *guard.Config) {
		c.Skip = append(c.Skip, func(r *http.Request, _ any) bool { return skip(r) })
	})
}

// SkipKeys exempts the clients for whose keys skip returns true. Their requests use no store and get no fields; the
// observer gets their events, with the Source core.SourceSkipped and a cost of 0. skip is called by many goroutines at
// once. Several SkipKeys add up.
//
// The key is that of the guard's key function, so a client is exempt under the same key as it is counted. To exempt
// networks, see [keyfuncs.Addr].
func SkipKeys(skip func(key string) bool) Option {
	return withFunc("SkipKeys", skip, func(c *guard.Config) { c.SkipKeys = append(c.SkipKeys, skip) })
}

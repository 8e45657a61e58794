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
	return func(c *guard.Config) error {
		for _, p := range paths {
			s, err := parseSkippedPath(p)
			if err != nil {
				return fmt.Errorf("sash: SkipPaths(%q): %w", p, err)
			}
			c.Deciding.SkipPaths = append(c.Deciding.SkipPaths, s)
		}
		return nil
	}
}

// parseSkippedPath returns the method and the path of an argument of SkipPaths.
func parseSkippedPath(given string) (guard.SkippedPath, error) {
	method, path := http.MethodGet, given
	if m, rest, found := strings.Cut(given, " "); found && !strings.HasPrefix(given, "/") {
		method, path = m, rest
	}
	switch {
	case !isMethod(method):
		return guard.SkippedPath{}, fmt.Errorf("%q is not a method in capital letters: write %q", method, correction(given))
	case !strings.HasPrefix(path, "/"):
		return guard.SkippedPath{}, fmt.Errorf("the path %q does not start with a slash: write %q; "+
			"for anything but a method and a path use nethttp.Skip", path, correction(given))
	case strings.ContainsAny(path, "*{"):
		return guard.SkippedPath{}, errors.New("paths are compared byte for byte, without wildcards: use nethttp.Skip, " +
			"with a function that calls strings.HasPrefix(r.URL.Path, ...) for example")
	case strings.Contains(path, "?"):
		return guard.SkippedPath{}, errors.New("a path has no query: " +
			"leave out the question mark and the rest, or use nethttp.Skip")
	case strings.TrimSpace(path) != path:
		return guard.SkippedPath{}, fmt.Errorf("the path %q ends with a blank: write %q", path, correction(given))
	case strings.ContainsFunc(path, unicode.IsControl):
		return guard.SkippedPath{}, fmt.Errorf("the path %q has a control character: leave it out", path)
	}
	if plain, err := url.PathUnescape(path); err == nil && plain != path {
		return guard.SkippedPath{}, fmt.Errorf("paths are compared as r.URL.Path has them, without escapes: "+
			"give %q, or use nethttp.Skip", plain)
	}
	return guard.SkippedPath{Method: method, Path: path}, nil
}

func isMethod(s string) bool {
	return s != "" && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-") == ""
}

// correction returns what the caller of SkipPaths probably meant by an argument.
func correction(given string) string {
	given = strings.TrimSpace(given)
	method, path := http.MethodGet, given
	if blank := strings.IndexFunc(given, unicode.IsSpace); blank > 0 && given[0] != '/' {
		path = strings.TrimSpace(given[blank:])
		if upper := strings.ToUpper(given[:blank]); isMethod(upper) {
			method = upper
		}
	}
	return method + " /" + strings.TrimLeft(path, " /")
}

// Skip excludes the requests for which skip returns true: they touch no store
// and get no fields. It is called by many goroutines at once. Several Skips, and
// SkipPaths, add up.
func Skip(skip func(*http.Request) bool) Option {
	return func(c *guard.Config) error {
		if skip == nil {
			return errors.New("sash: Skip(nil): give a func(*http.Request) bool, or leave the option out")
		}
		c.Deciding.Skip = append(c.Deciding.Skip, skip)
		return nil
	}
}

// SkipKeys exempts clients by their names: a client is not limited if skip returns true for
// its key. The request touches no store and gets no fields; the observer hears of it, with
// the Source core.SourceSkipped and a cost of 0. skip is called by many goroutines at once.
// Several SkipKeys add up.
//
// The key is that of the guard's key function, so that a client is exempt by no other name
// than the one it would be counted by. To exempt networks, see [keyfuncs.Addr].
func SkipKeys(skip func(key string) bool) Option {
	return func(c *guard.Config) error {
		if skip == nil {
			return errors.New("sash: SkipKeys(nil): give a func(key string) bool, or leave the option out")
		}
		c.Deciding.SkipKeys = append(c.Deciding.SkipKeys, skip)
		return nil
	}
}

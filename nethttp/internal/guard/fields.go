package guard

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/headers"
	"github.com/sashlimit/sash/internal/token"
)

// reservedFields are fields that no format may write: the server or a refusal writes them, or they are about the body.
var reservedFields = []string{
	"Cache-Control", "Connection", "Content-Length", "Content-Type", "Retry-After", "Trailer", "Transfer-Encoding",
}

// fieldNames returns the names of the fields that the formats write. It returns an error for a field that two formats
// write, a reserved field, and an invalid name.
func fieldNames(formats []headers.Format) (names []string, err error) {
	for _, f := range formats {
		for _, name := range f.Names() {
			switch {
			case slices.Contains(names, name):
				return nil, errors.New("sash: the formats of WithHeaders write the field " + name +
					" twice: give one of them, or other names with headers.XRateLimit.WithNames")
			case slices.Contains(reservedFields, name):
				return nil, errors.New("sash: a format of WithHeaders writes the field " + name +
					", which is not about a limit: give it another name, such as X-RateLimit-Reset")
			case !token.IsValid(name) || http.CanonicalHeaderKey(name) != name:
				return nil, fmt.Errorf("sash: the format %T names the field %.64q, which is not the name of a field "+
					"as http.CanonicalHeaderKey writes it, such as X-Ratelimit-Limit", f, name)
			}
			names = append(names, name)
		}
	}
	return names, nil
}

// limitsOf returns the limits of l with the Requests and windows of numbers, which need not be valid. A nil numbers
// changes nothing.
func (g *Guard) limitsOf(l *core.Limiter, numbers []core.Limit) []core.Limit {
	if l == g.limiter && numbers == nil {
		return g.limits
	}
	limits := l.Limits()
	for i := range min(len(limits), len(numbers)) {
		limits[i].Requests, limits[i].Window = numbers[i].Requests, numbers[i].Window
	}
	return limits
}

// writeFields sets the fields of d, if its limit is known. They replace those of an outer guard.
func (g *Guard) writeFields(h http.Header, limits []core.Limit, d *core.Decision) {
	if d.Limit.Requests == 0 {
		return
	}
	for _, format := range g.config.Formats {
		format.Write(h, limits, *d)
	}
}

// DropLimits removes RateLimit, and all fields that begin with X-RateLimit- or RateLimit-.
func DropLimits(h http.Header) {
	for name := range h {
		if name == "Ratelimit" || strings.HasPrefix(name, "Ratelimit-") || strings.HasPrefix(name, "X-Ratelimit-") {
			delete(h, name)
		}
	}
}

// dropFields removes the limit fields of outer guards from the response to a refused request. Inside an
// http.TimeoutHandler, which copies fields to the outer response, a field without a value removes the outer one.
func (g *Guard) dropFields(w http.ResponseWriter) {
	h := w.Header()
	DropLimits(h)
	copied := mayTimeOut(w)
	for _, name := range g.names {
		if delete(h, name); copied {
			h[name] = nil
		}
	}
}

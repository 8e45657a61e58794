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

// otherFields are fields that no format may write, because the server or a refusal does, or
// because they say how the body is sent.
var otherFields = []string{
	"Cache-Control", "Connection", "Content-Length", "Content-Type", "Retry-After", "Trailer", "Transfer-Encoding",
}

// fieldNames returns the names of the fields that the formats write. An error says that they write a field twice, one
// that is not theirs, or one that no response can have.
func fieldNames(formats []headers.Format) (names []string, err error) {
	for _, f := range formats {
		for _, name := range f.Names() {
			switch {
			case slices.Contains(names, name):
				return nil, errors.New("sash: the formats of WithHeaders write the field " + name +
					" twice: give one of them, or other names with headers.Classic.WithNames")
			case slices.Contains(otherFields, name):
				return nil, errors.New("sash: a format of WithHeaders writes the field " + name +
					", which is not about a limit: give it another name, such as X-RateLimit-Reset")
			case !token.Is(name) || http.CanonicalHeaderKey(name) != name:
				return nil, fmt.Errorf("sash: the format %T names the field %.64q, which is not the name of a field "+
					"as http.CanonicalHeaderKey writes it, such as X-Ratelimit-Limit", f, name)
			}
			names = append(names, name)
		}
	}
	return names, nil
}

// limitsOf returns the limits that decide a request by l: numbers, which have not been checked, in the place of its own
// Requests.
func (g *Decider) limitsOf(l *core.Limiter, numbers []core.Limit) []core.Limit {
	if l == g.limiter && numbers == nil {
		return g.limits
	}
	limits := l.Limits()
	for i := range min(len(limits), len(numbers)) {
		limits[i].Requests = numbers[i].Requests
	}
	return limits
}

// writeFields sets the fields of d, if its limit is known. So the fields of a guard inside another replace the outer
// ones.
func (g *Decider) writeFields(h http.Header, limits []core.Limit, d *core.Decision) {
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

// dropFields removes what a guard outside has told of its limit from the response, before a refusal tells of another
// limit, or of none. An http.TimeoutHandler copies fields outwards, and removes one that has no value.
func (g *Decider) dropFields(w http.ResponseWriter) {
	h := w.Header()
	DropLimits(h)
	copied := mayTimeOut(w)
	for _, name := range g.names {
		if delete(h, name); copied {
			h[name] = nil
		}
	}
}

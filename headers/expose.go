package headers

import (
	"net/http"
	"slices"
	"strings"

	"github.com/sashlimit/sash/core"
)

// Expose returns the format with its names, and Retry-After, appended to
// Access-Control-Expose-Headers: browsers hide these fields from scripts of other
// origins otherwise. What a CORS middleware has put there before stays. A CORS
// middleware that comes later must append as well, or allow the names itself. Of nil it is nil, which a guard refuses.
func Expose(f Format) Format {
	if f == nil {
		return nil
	}
	return exposed{f, strings.Join(append(slices.Clip(f.Names()), "Retry-After"), ", ")}
}

// exposed is the format that Expose returns.
type exposed struct {
	Format
	names string
}

const exposeHeaders = "Access-Control-Expose-Headers"

// Write implements [Format].
func (e exposed) Write(h http.Header, limits []core.Limit, d core.Decision) {
	e.Format.Write(h, limits, d)
	// Once is enough when guards are nested. Clip, because the values
	// may be a slice that another middleware uses for every response.
	if values := h[exposeHeaders]; !slices.Contains(values, e.names) {
		h[exposeHeaders] = append(slices.Clip(values), e.names)
	}
}

package headers

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/sashlimit/sash/core"
)

// Expose returns the format with its names, and Retry-After, appended to
// Access-Control-Expose-Headers: browsers hide these fields from scripts of other
// origins otherwise. What a CORS middleware has put there before stays. A CORS
// middleware that comes later must append as well, or allow the names itself.
func Expose(f Format) Format { return exposed{f} }

// exposed is the format that Expose returns.
type exposed struct{ Format }

const exposeHeaders = "Access-Control-Expose-Headers"

// Prepare implements [Format].
func (e exposed) Prepare(limits []core.Limit) (func(http.Header, core.Decision), error) {
	if e.Format == nil {
		return nil, errors.New("sash: headers.Expose(nil): give a format, such as headers.Expose(headers.Classic)")
	}
	write, err := e.Format.Prepare(limits)
	if err != nil || write == nil {
		return nil, err
	}
	names := strings.Join(append(slices.Clip(e.Names()), "Retry-After"), ", ")
	return func(h http.Header, d core.Decision) {
		write(h, d)
		// Once is enough when guards are nested. Clip, because the values
		// may be a slice that another middleware uses for every response.
		if values := h[exposeHeaders]; !slices.Contains(values, names) {
			h[exposeHeaders] = append(slices.Clip(values), names)
		}
	}, nil
}

package nethttp

import (
	"net/http"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/nethttp/internal/guard"
)

// Status returns the HTTP status for a decision of a guard: 200 if it is allowed, else 429,
// 503, 401, 400, 500 or 499 as the package comment lists them.
func Status(d core.Decision) int { return guard.Status(d) }

// Refuse writes the default response to a request that was refused: the status of [Status]
// and, unless that is 499, a problem in JSON (RFC 9457), whatever the client accepts. A function given to
// [WithRefusal] may end by calling it. The header fields of the limit are set already.
//
// The members of the problem are type, title, status, detail, error (a short
// constant: rate_limit_exceeded, rate_limiter_unavailable, unauthenticated,
// client_unidentified or internal_error), retry_after (whole seconds; left out if coming back is of
// no use) and, with 429, violated-policies (the name of the limit that refused).
func Refuse(w http.ResponseWriter, r *http.Request, d core.Decision) { guard.Refuse(w, r, d) }

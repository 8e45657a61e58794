package nethttp

import (
	"net/http"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/nethttp/internal/guard"
)

// Status returns the HTTP status for a decision of a guard: 200 if it is allowed, and otherwise 429, 503, 401, 400, 500
// or 499, as in the package comment.
func Status(d core.Decision) int { return guard.Status(d) }

// Refuse writes the default response to a refused request: the status of [Status] and, unless that is 499, a problem in
// JSON (RFC 9457), whatever the client accepts. A function of [WithRefusal] may call it. The limit fields must be set.
//
// The members of the problem are type, title, status, detail, error (a short constant: rate_limit_exceeded,
// rate_limiter_unavailable, unauthenticated, client_unidentified or internal_error), retry_after (whole seconds; absent
// if no retry can pass) and, with 429, violated-policies (the name of the reached limit).
func Refuse(w http.ResponseWriter, r *http.Request, d core.Decision) { guard.Refuse(w, d) }

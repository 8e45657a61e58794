package guard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/headers"
	"github.com/sashlimit/sash/keyfuncs"
)

// reason is a reason for a refusal: the status, and the body up to the numbers at its end. It is the same for every
// client.
type reason struct {
	status int
	body   string
}

// newReason returns a reason whose body is a problem of RFC 9457 with the given members. Its title is the text of the
// status.
func newReason(status int, typ, detail, err string) *reason {
	return &reason{status, fmt.Sprintf(`{"type":"%s","title":"%s","status":%d,"detail":"%s","error":"%s"`,
		typ, http.StatusText(status), status, detail, err)}
}

const problemTypes = "https://iana.org/assignments/http-problem-types#"

var (
	overLimit = newReason(http.StatusTooManyRequests, problemTypes+"quota-exceeded",
		"The limit on requests is reached.", "rate_limit_exceeded")
	neverFits = newReason(http.StatusTooManyRequests, problemTypes+"quota-exceeded",
		"This request costs more than the limit ever allows.", "rate_limit_exceeded")
	unavailable = newReason(http.StatusServiceUnavailable, problemTypes+"temporary-reduced-capacity",
		"The limit on requests cannot be checked at the moment.", "rate_limiter_unavailable")
	unauthenticated = newReason(http.StatusUnauthorized, "about:blank",
		"The request needs a credential that is known here, such as an API key.", "unauthenticated")
	unidentified = newReason(http.StatusBadRequest, "about:blank",
		"The request does not identify its client.", "client_unidentified")
	checkFailed = newReason(http.StatusInternalServerError, "about:blank",
		"The limit on requests could not be checked.", "internal_error")

	// clientLeft is the reason if the context of the request was canceled, with the status of nginx.
	clientLeft = &reason{status: 499}
)

// reasonOf returns the reason for a decision that is not allowed.
func reasonOf(d *core.Decision) *reason {
	switch {
	case d.Err == nil, d.Limit.Requests > 0: // an Err with a Limit: a fallback has decided
		if d.RetryAfter == core.Never {
			return neverFits
		}
		return overLimit
	case errors.Is(d.Err, core.ErrKey): // first, since its inner error may match others
		return checkFailed
	case errors.Is(d.Err, core.ErrLimits): // its inner error may match others too
		return unavailable
	case challengeOf(d) != "":
		return unauthenticated
	case errors.Is(d.Err, keyfuncs.ErrNoKey), errors.Is(d.Err, keyfuncs.ErrBadRequest):
		return unidentified
	case errors.Is(d.Err, core.ErrStore), errors.Is(d.Err, context.DeadlineExceeded):
		return unavailable // the deadline of outer middleware leaves no time for the store
	case errors.Is(d.Err, context.Canceled):
		return clientLeft
	}
	return checkFailed
}

// challengeOf returns the value of WWW-Authenticate for a decision without valid credentials, or "".
func challengeOf(d *core.Decision) string {
	if e, ok := errors.AsType[*keyfuncs.UnauthenticatedError](d.Err); ok {
		return cmp.Or(e.Challenge, "Bearer")
	}
	return ""
}

// Status returns the HTTP status for a decision.
func Status(d core.Decision) int {
	if d.Allowed {
		return http.StatusOK
	}
	return reasonOf(&d).status
}

// retryAfter returns the value of Retry-After for the refusal d, or 0 for none.
func (p *reason) retryAfter(d *core.Decision) (seconds int64) {
	if p == overLimit || p == unavailable && d.RetryAfter > 0 {
		seconds, _ = headers.RetryAfter(*d)
	}
	return seconds
}

// setFields sets the fields of the refusal d that are about neither the limit nor the body.
func (p *reason) setFields(h http.Header, d *core.Decision) {
	h.Set("Cache-Control", "no-store")
	if seconds := p.retryAfter(d); seconds > 0 {
		h.Set("Retry-After", strconv.FormatInt(seconds, 10))
	}
	if p == unauthenticated {
		h.Set("WWW-Authenticate", challengeOf(d))
	}
}

// bodyPool holds buffers of bodies, since a server under a flood writes refusals most of all. A ResponseWriter must not
// keep the bytes that it writes.
var bodyPool = sync.Pool{New: func() any { return new([]byte) }}

// Refuse writes the default response to a refused request. The limit fields must be set. The server sends no body to a
// HEAD, and adds the Content-Length. No part of the body needs an escape: the texts are constants, and core.New checks
// the names of limits.
func Refuse(w http.ResponseWriter, d core.Decision) {
	why := reasonOf(&d)
	if why == clientLeft {
		w.WriteHeader(why.status)
		return
	}
	buffer := bodyPool.Get().(*[]byte)
	b := append((*buffer)[:0], why.body...)
	if seconds := why.retryAfter(&d); seconds > 0 {
		b = strconv.AppendInt(append(b, `,"retry_after":`...), seconds, 10)
	}
	if d.Limit.Name != "" {
		b = append(strconv.AppendQuote(append(b, `,"violated-policies":[`...), d.Limit.Name), ']')
	}
	b = append(b, '}')
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(why.status)
	_, _ = w.Write(b) // an error says that the client has left
	*buffer = b
	bodyPool.Put(buffer)
}

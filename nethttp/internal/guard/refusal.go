package guard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/headers"
	"github.com/sashlimit/sash/keyfuncs"
)

// reason says why a request is refused, in words that are the same for every client: the status, and what stands in the
// body before and after the advice at the end of the detail. TestAnswers of nethttp shows all bodies.
type reason struct {
	status                    int
	beforeAdvice, afterAdvice string
}

// newReason returns a reason with a problem of RFC 9457. The title of the problem is the text of the status, and the
// other arguments are members of it.
func newReason(status int, typ, detail, err string) *reason {
	return &reason{
		status: status,
		beforeAdvice: fmt.Sprintf(`{"type":"%s","title":"%s","status":%d,"detail":"%s`,
			typ, http.StatusText(status), status, detail),
		afterAdvice: fmt.Sprintf(`","error":"%s"`, err),
	}
}

const problemTypes = "https://iana.org/assignments/http-problem-types#"

var (
	overLimit = newReason(http.StatusTooManyRequests, problemTypes+"quota-exceeded",
		"The limit on requests is reached.", "rate_limit_exceeded")
	overAnyLimit = newReason(http.StatusTooManyRequests, problemTypes+"quota-exceeded",
		"This request costs more than the limit ever allows.", "rate_limit_exceeded")
	noStore = newReason(http.StatusServiceUnavailable, problemTypes+"temporary-reduced-capacity",
		"The limit on requests cannot be checked at the moment.", "rate_limiter_unavailable")
	unauthenticated = newReason(http.StatusUnauthorized, "about:blank",
		"The request needs a credential that is known here, such as an API key.", "unauthenticated")
	noKey = newReason(http.StatusBadRequest, "about:blank",
		"The request does not say whose it is.", "client_unidentified")
	checkFailed = newReason(http.StatusInternalServerError, "about:blank",
		"The limit on requests could not be checked.", "internal_error")

	// clientLeft is the reason if the context of the request was canceled. The status is the one that nginx logs.
	clientLeft = &reason{status: 499}
)

// reasonOf returns the reason for a decision that is not allowed.
func reasonOf(d *core.Decision) *reason {
	switch {
	case d.Err == nil, d.Limit.Requests > 0: // with an Err and a Limit: a fallback has decided
		if d.RetryAfter == core.Never {
			return overAnyLimit
		}
		return overLimit
	case errors.Is(d.Err, core.ErrKey): // first: the error inside may match more
		return checkFailed
	case errors.Is(d.Err, core.ErrLimits): // likewise
		return noStore
	case challengeOf(d) != "":
		return unauthenticated
	case errors.Is(d.Err, keyfuncs.ErrNoKey), errors.Is(d.Err, keyfuncs.ErrBadRequest):
		return noKey
	case errors.Is(d.Err, core.ErrStore), errors.Is(d.Err, context.DeadlineExceeded):
		return noStore // or no time to ask it, set by a handler outside: the client is still there
	case errors.Is(d.Err, context.Canceled):
		return clientLeft
	}
	return checkFailed
}

// challengeOf returns the value of WWW-Authenticate for a decision, or "" if credentials are not what is missing.
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

// refusalResponse is the default response to a refused request.
type refusalResponse struct {
	why        *reason
	retryAfter string // empty for none
	challenge  string // empty for none
}

// newRefusalResponse returns the response to a request that was refused with d.
func newRefusalResponse(d *core.Decision) refusalResponse {
	f := refusalResponse{why: reasonOf(d)}
	if f.why == overLimit || f.why == noStore && d.RetryAfter > 0 {
		if seconds, ok := headers.RetryAfter(*d); ok {
			f.retryAfter = strconv.FormatInt(seconds, 10)
		}
	}
	if f.why == unauthenticated {
		f.challenge = challengeOf(d)
	}
	return f
}

// setFields sets the fields that are neither about the limit nor about the body.
func (f *refusalResponse) setFields(h http.Header) {
	values := []string{"no-store", f.retryAfter}
	h["Cache-Control"] = values[0:1:1]
	if f.retryAfter != "" {
		h["Retry-After"] = values[1:2:2]
	}
	if f.challenge != "" {
		h.Set("WWW-Authenticate", f.challenge)
	}
}

// Refuse writes the default response to a request that was refused. The header fields of the limit are set already.
func Refuse(w http.ResponseWriter, r *http.Request, d core.Decision) {
	response := newRefusalResponse(&d)
	response.write(w, r, d.Limit.Name)
}

// write writes the fields of the body, the status and the body. policy is the name
// of the limit that refused, or empty.
func (f *refusalResponse) write(w http.ResponseWriter, r *http.Request, policy string) {
	if f.why == clientLeft {
		w.WriteHeader(f.why.status)
		return
	}
	b := bodies.Get().(*[]byte)
	*b = f.why.appendBody((*b)[:0], f.retryAfter, policy)
	h := w.Header()
	values := []string{"application/problem+json", strconv.Itoa(len(*b))}
	h["Content-Type"], h["Content-Length"] = values[0:1:1], values[1:2:2]
	w.WriteHeader(f.why.status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(*b) // an error means that the client left
	}
	bodies.Put(b)
}

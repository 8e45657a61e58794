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

// reason is a reason for a refusal: the status, and the body before and after the advice at the end of the detail. It
// is the same for every client.
type reason struct {
	status                    int
	beforeAdvice, afterAdvice string
}

// newReason returns a reason whose body is a problem of RFC 9457 with the given members. Its title is the text of the
// status.
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
	case errors.Is(d.Err, core.ErrLimits): // so may this one
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

// refusalResponse is the default response to a refused request.
type refusalResponse struct {
	why        *reason
	retryAfter string // empty for none
	challenge  string // empty for none
}

// newRefusalResponse returns the response for the refusal d.
func newRefusalResponse(d *core.Decision) refusalResponse {
	f := refusalResponse{why: reasonOf(d)}
	if f.why == overLimit || f.why == unavailable && d.RetryAfter > 0 {
		if seconds, ok := headers.RetryAfter(*d); ok {
			f.retryAfter = strconv.FormatInt(seconds, 10)
		}
	}
	if f.why == unauthenticated {
		f.challenge = challengeOf(d)
	}
	return f
}

// setFields sets the fields that are about neither the limit nor the body.
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

// Refuse writes the default response to a refused request. The limit fields must be set.
func Refuse(w http.ResponseWriter, r *http.Request, d core.Decision) {
	response := newRefusalResponse(&d)
	response.write(w, r, d.Limit.Name)
}

// write writes the fields of the body, the status and the body. policy is the name of the reached limit, or empty.
func (f *refusalResponse) write(w http.ResponseWriter, r *http.Request, policy string) {
	if f.why == clientLeft {
		w.WriteHeader(f.why.status)
		return
	}
	b := bodyPool.Get().(*[]byte)
	*b = f.why.appendBody((*b)[:0], f.retryAfter, policy)
	h := w.Header()
	values := []string{"application/problem+json", strconv.Itoa(len(*b))}
	h["Content-Type"], h["Content-Length"] = values[0:1:1], values[1:2:2]
	w.WriteHeader(f.why.status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(*b) // an error says that the client has left
	}
	bodyPool.Put(b)
}

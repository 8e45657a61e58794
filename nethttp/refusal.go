package nethttp

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/headers"
	"github.com/sashlimit/sash/internal/decimal"
	"github.com/sashlimit/sash/keyfuncs"
)

// reason is why a request is refused, in words that are the same for everybody.
type reason struct {
	status                     int
	typ, title, detail, errStr string
	json                       string // a problem up to and with detail
}

func because(status int, typ, title, detail, errStr string) *reason {
	return &reason{status, typ, title, detail, errStr,
		`{"type":"` + typ + `","title":"` + title + `","status":` + strconv.Itoa(status) + `,"detail":"` + detail}
}

const problemTypes = "https://iana.org/assignments/http-problem-types#"

var (
	overLimit = because(http.StatusTooManyRequests, problemTypes+"quota-exceeded", "Too Many Requests",
		"The limit on requests is reached.", "rate_limit_exceeded")
	overAnyLimit = because(http.StatusTooManyRequests, problemTypes+"quota-exceeded", "Too Many Requests",
		"This request costs more than the limit ever allows.", "rate_limit_exceeded")
	noStore = because(http.StatusServiceUnavailable, problemTypes+"temporary-reduced-capacity", "Service Unavailable",
		"The limit on requests cannot be checked at the moment.", "rate_limiter_unavailable")
	noKey = because(http.StatusBadRequest, "about:blank", "Bad Request",
		"The request does not say whose it is.", "client_unidentified")
	failed = because(http.StatusInternalServerError, "about:blank", "Internal Server Error",
		"The limit on requests could not be checked.", "internal_error")
	ended = &reason{status: http.StatusServiceUnavailable} // nobody listens any more
)

func reasonOf(d *core.Decision) *reason {
	switch {
	case d.Err == nil, d.Limit.Requests > 0: // the latter decided by a fallback
		if d.RetryAfter == core.Never {
			return overAnyLimit
		}
		return overLimit
	case isKeyError(d.Err): // first, since it may wrap anything
		return failed
	case errors.Is(d.Err, keyfuncs.ErrNoKey):
		return noKey
	case errors.Is(d.Err, core.ErrStore): // before the contexts: the store may have had a deadline
		return noStore
	case errors.Is(d.Err, context.Canceled), errors.Is(d.Err, context.DeadlineExceeded):
		return ended
	}
	return failed
}

// Status returns the HTTP status for a decision of [Decider.Decide]: 200 if it
// is allowed, else 429, 503, 400 or 500 as the package comment lists them.
func Status(d core.Decision) int {
	if d.Allowed {
		return http.StatusOK
	}
	return reasonOf(&d).status
}

// storeRetryAfter is how many seconds a client is told to wait for a store
// that cannot be asked, if the limiter does not know better.
const storeRetryAfter = 5

func retryAfter(d *core.Decision, why *reason) (seconds int64, ok bool) {
	switch why {
	case overLimit:
		return headers.RetryAfter(*d)
	case noStore:
		if d.RetryAfter > 0 {
			return headers.RetryAfter(*d)
		}
		return storeRetryAfter, true
	}
	return 0, false
}

// refusal is why a request is refused, and what the header of the response
// holds.
type refusal struct {
	why *reason
	*refusalValues
}

// refusalValues is one allocation of 160 bytes, with what the limit fields take.
// The text is of the numbers: the longest Retry-After has 10 digits.
type refusalValues struct {
	limit headers.ClassicMemory

	cacheControl, retryAfter, contentType, contentLength [1]string

	text [16]byte
}

func refusalOf(d *core.Decision) refusal {
	f := refusal{reasonOf(d), new(refusalValues)}
	if seconds, ok := retryAfter(d, f.why); ok {
		f.retryAfter[0] = decimal.String(f.text[:10], seconds)
	}
	return f
}

// announce sets the fields that are neither about the limit nor about the body.
func (f *refusal) announce(h http.Header) {
	f.cacheControl[0] = "no-store"
	h["Cache-Control"] = f.cacheControl[:]
	if f.retryAfter[0] != "" {
		h["Retry-After"] = f.retryAfter[:]
	}
}

// Refuse writes the default response to a request that was refused: the status
// of [Status] and a problem in JSON, HTML or plain text, whichever the client
// asks for. A function given to [WithRefusal] may end by calling it. The
// header fields of the limit are set already, by [Decider.Decide].
//
// The members of the problem are type, title, status, detail, error (a short
// constant: rate_limit_exceeded, rate_limiter_unavailable, client_unidentified
// or internal_error), retry_after (whole seconds; left out if coming back is of
// no use) and, with 429, violated-policies (the name of the limit that refused).
func Refuse(w http.ResponseWriter, r *http.Request, d core.Decision) {
	f := refusalOf(&d)
	f.respond(w, r, d.Limit.Name)
}

// refuses says whether a function of the user's has written the refusal. Nothing
// written would be a 200.
func (g *Decider) refuses(w http.ResponseWriter, r *http.Request, d core.Decision) bool {
	if g.refuse == nil {
		return false
	}
	own := written{ResponseWriter: w}
	g.refuse(&own, r, d)
	return own.yes
}

// written notices whether anything has been.
type written struct {
	http.ResponseWriter
	yes bool
}

func (w *written) WriteHeader(status int) {
	w.yes = w.yes || status >= 200 || status == http.StatusSwitchingProtocols
	w.ResponseWriter.WriteHeader(status)
}

func (w *written) Write(b []byte) (int, error) {
	w.yes = true
	return w.ResponseWriter.Write(b)
}

func (w *written) FlushError() error {
	w.yes = true
	return http.NewResponseController(w.ResponseWriter).Flush()
}

func (w *written) Flush() { _ = w.FlushError() }

func (w *written) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	w.yes = true
	return http.NewResponseController(w.ResponseWriter).Hijack()
}

func (w *written) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// respond writes the rest of the response. The policy is the limit that refused.
func (f *refusal) respond(w http.ResponseWriter, r *http.Request, policy string) {
	if f.why == ended {
		w.WriteHeader(f.why.status)
		return
	}
	body := bodies.Get().(*[]byte)
	f.contentType[0] = f.render(body, negotiate(r.Header["Accept"]), policy)
	f.contentLength[0] = decimal.String(f.text[10:], int64(len(*body)))
	h := w.Header()
	h["Content-Type"] = f.contentType[:]
	h["Content-Length"] = f.contentLength[:]
	w.WriteHeader(f.why.status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(*body) // an error means that the client left
	}
	bodies.Put(body)
}

// bodies are buffers for bodies, which a ResponseWriter may not keep: under a
// flood, refusing is most of what a server does.
var bodies = sync.Pool{New: func() any { return new([]byte) }}

// render makes body a problem of RFC 9457 with the members that this package
// adds, or the same in words. Nothing in it needs an escape: the texts are constants,
// and core.New has checked the names of limits.
func (f *refusal) render(body *[]byte, form mediaType, policy string) (contentType string) {
	b := (*body)[:0]
	defer func() { *body = b }()
	why, wait := f.why, f.retryAfter[0]
	switch form {
	case textHTML:
		b = append(append(append(b, "<!DOCTYPE html>\n<html lang=\"en\"><head><title>"...), why.title...), "</title></head><body><h1>"...)
		b = append(append(append(b, why.title...), "</h1><p>"...), why.detail...)
		b = append(appendAdvice(b, wait), "</p></body></html>\n"...)
		return "text/html; charset=utf-8"
	case textPlain:
		b = append(appendAdvice(append(b, why.detail...), wait), '\n')
		return "text/plain; charset=utf-8"
	}
	b = appendAdvice(append(b, why.json...), wait)
	b = append(append(append(b, `","error":"`...), why.errStr...), '"')
	if wait != "" {
		b = append(append(b, `,"retry_after":`...), wait...)
	}
	if policy != "" {
		b = append(append(append(b, `,"violated-policies":["`...), policy...), `"]`...)
	}
	b = append(b, '}')
	return "application/problem+json"
}

// appendAdvice says when to come back, if that is of any use.
func appendAdvice(b []byte, wait string) []byte {
	switch wait {
	case "":
		return b
	case "1":
		return append(b, " Try again in 1 second."...)
	}
	return append(append(append(b, " Try again in "...), wait...), " seconds."...)
}

type mediaType uint8

const (
	problemJSON mediaType = iota
	textHTML
	textPlain
)

// negotiate answers in JSON unless the client asks for HTML or plain text and
// for no JSON at all; of those two, in the one named first. Weights do not
// count, except that q=0 means not that one.
func negotiate(accept []string) mediaType {
	answer := problemJSON
	for _, line := range accept {
		for element := range strings.SplitSeq(line, ",") {
			media, parameters, _ := strings.Cut(element, ";")
			media = strings.ToLower(strings.TrimSpace(media))
			switch {
			case unacceptable(parameters):
			case media == "application/*", media == "application/json", strings.HasSuffix(media, "+json"):
				return problemJSON
			case answer != problemJSON:
			case media == "text/html":
				answer = textHTML
			case media == "text/plain", media == "text/*":
				answer = textPlain
			}
		}
	}
	return answer
}

// unacceptable reports a weight of q=0 in the parameters of a media range.
func unacceptable(parameters string) bool {
	for p := range strings.SplitSeq(parameters, ";") {
		name, value, found := strings.Cut(strings.TrimSpace(p), "=")
		if found && strings.EqualFold(name, "q") {
			return strings.Trim(value, "0.") == ""
		}
	}
	return false
}

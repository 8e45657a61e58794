package keyfuncs

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/internal/errs"
)

// Func names the client of a request. Requests with the same key share a count. It returns a key that is not empty, or
// an error:
//
//   - one that matches [ErrNoKey] if the request has no such name. [First] then calls the next function; after the last
//     one the request is refused with 400, or with 401 for an [*UnauthenticatedError], and is never served unlimited;
//   - one that matches [ErrBadRequest] if the request names its client more than once, or in an invalid form. First
//     ends, and the request is refused with 400, since under another name the client would choose its count;
//   - a [*RefusedError] if a limiter inside the Func has refused the request, whose decision is answered;
//   - any other error if the look-up of the name fails. The request gets 500, without the error's text.
//
// A Func is called by many goroutines at once and must neither change the request nor read its body.
type Func = func(*http.Request) (string, error)

// ErrNoKey is the error of a request without a name for a [Func]. Compare with [errors.Is], since the errors of this
// package have more text.
var ErrNoKey = errors.New("sash: no key: the request has no such name")

// ErrBadRequest is the error of a request whose credential is repeated, contradicts another one, or is too long.
// Compare with [errors.Is].
var ErrBadRequest = errors.New("sash: bad request: the name of the client is ambiguous or invalid")

// RefusedError is the error of a [Func] whose own limiter refuses the request, as [APIKey] has one with
// [LimitFailures]. Find it with [errors.As].
type RefusedError struct {
	// Decision is the limiter's refusal. Its Limit is the limit that was reached, also of a fallback, or the zero Limit
	// if the store failed.
	Decision core.Decision
}

// Error implements error. The text has no input of the client.
func (e *RefusedError) Error() string {
	if e.Decision.Err != nil && e.Decision.Limit.Requests == 0 {
		return "sash: refused by a limiter of the key function: " + errs.Text(e.Decision.Err)
	}
	return fmt.Sprintf("sash: refused by a limiter of the key function: limit %v is reached", e.Decision.Limit)
}

// UnauthenticatedError is an [ErrNoKey] of a request without a valid credential, returned by [APIKey], and for a [Func]
// of yours that reads tokens. Package nethttp answers it with 401. Find it with [errors.As].
type UnauthenticatedError struct {
	Challenge string // the value of WWW-Authenticate, such as `Bearer realm="api"`
	Reason    string // for logs, without input of the client
}

// Error implements error.
func (e *UnauthenticatedError) Error() string { return "sash: no key: " + e.Reason }

// Is reports whether target is ErrNoKey.
func (e *UnauthenticatedError) Is(target error) bool { return target == ErrNoKey }

// noKeyError is an ErrNoKey with a text.
type noKeyError string

func (e noKeyError) Error() string { return "sash: no key: " + string(e) }

func (e noKeyError) Is(target error) bool { return target == ErrNoKey }

// badRequestError is an ErrBadRequest with a text.
type badRequestError string

func (e badRequestError) Error() string { return "sash: bad request: " + string(e) }

func (e badRequestError) Is(target error) bool { return target == ErrBadRequest }

package keyfuncs

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/internal/errs"
)

// Func names the client of a request: all requests of one name share one count. It returns a key that is not empty,
// or an error:
//
//   - one that matches [ErrNoKey] if the request carries no such name. [First] then asks the next function; at the end
//     of the line the request is refused with 400, or with 401 for an [*UnauthenticatedError], never let through
//     unlimited;
//   - one that matches [ErrBadRequest] if the request names its client more than once, or in a form that no name has.
//     First ends, and the request is refused with 400: under another name, the client would choose how it is counted;
//   - a [*RefusedError] if a limiter inside the Func has refused the request: that decision is answered;
//   - any other error if the name could not be found out. The request is answered with 500, without the error's text.
//
// A Func is called by many goroutines at once and must neither change the request nor read its body.
type Func = func(*http.Request) (string, error)

// ErrNoKey says that the request has no name of the kind that was asked for. Compare with [errors.Is]: the errors of
// this package say more.
var ErrNoKey = errors.New("sash: no key: the request has no such name")

// ErrBadRequest says that the request cannot be named because of what it carries: a credential that is repeated,
// contradicts another one, or is too long. Compare with [errors.Is].
var ErrBadRequest = errors.New("sash: bad request: the request names its client in a way that is refused")

// RefusedError is the error of a [Func] that asks a limiter of its own, as [APIKey] does with [LimitFailures], where
// that limiter refuses. Find it with [errors.As].
type RefusedError struct {
	// Decision is the limiter's refusal. Its Limit is the reached one, also by the counts of a fallback, or the
	// zero Limit where the store failed.
	Decision core.Decision
}

// Error implements error. Its text holds nothing of the client's.
func (e *RefusedError) Error() string {
	if e.Decision.Err != nil && e.Decision.Limit.Requests == 0 {
		return "sash: refused by a limiter of the key function: " + errs.Text(e.Decision.Err)
	}
	return fmt.Sprintf("sash: refused by a limiter of the key function: limit %v is reached", e.Decision.Limit)
}

// UnauthenticatedError is an [ErrNoKey] of a request that lacks a credential, or has one that nobody issued: that of
// [APIKey], and of a [Func] of yours that looks at tokens. Package nethttp answers it with 401. Find it with
// [errors.As].
type UnauthenticatedError struct {
	Challenge string // the value of WWW-Authenticate, such as `Bearer realm="api"`
	Reason    string // for logs; it must hold nothing of the client's
}

// Error implements error.
func (e *UnauthenticatedError) Error() string { return "sash: no key: " + e.Reason }

// Is reports whether target is ErrNoKey.
func (e *UnauthenticatedError) Is(target error) bool { return target == ErrNoKey }

// noKeyError is an ErrNoKey that says what was missing.
type noKeyError string

func (e noKeyError) Error() string { return "sash: no key: " + string(e) }

func (e noKeyError) Is(target error) bool { return target == ErrNoKey }

// badRequestError is an ErrBadRequest that says what was wrong.
type badRequestError string

func (e badRequestError) Error() string { return "sash: bad request: " + string(e) }

func (e badRequestError) Is(target error) bool { return target == ErrBadRequest }

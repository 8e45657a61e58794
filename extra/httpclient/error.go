package httpclient

import (
	"context"
	"errors"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/extra/internal/clientlimit"
	"github.com/sashlimit/sash/internal/errs"
)

// Errors of the RoundTripper of [NewTransport], to be compared with [errors.Is].
var (
	// ErrLimited means that the limit is reached and [NoWait] is set.
	ErrLimited = clientlimit.ErrLimited

	// ErrPaused means that the server requested a pause that is too long to wait for. If it ends after the context's
	// deadline, the error is a [core.ErrTooLate] too.
	ErrPaused = clientlimit.ErrPaused
)

// Error is the reason why a request was not sent. It matches [ErrLimited], [ErrPaused], an
// error of [core.Limiter.Wait], [core.ErrStore] where a closed policy refused, the error of
// the request's context, or wraps that of the key function.
type Error struct {
	// Decision is the refusal. Its RetryAfter is the rest of the pause in an ErrPaused, and
	// its Source is core.SourceNone if no limiter decided.
	Decision core.Decision

	err error
}

// Error implements error. Its text names neither the key nor the request.
func (e *Error) Error() string {
	return "sash: the request was not sent: " + errs.Text(e.err)
}

// Unwrap returns why the request was not sent.
func (e *Error) Unwrap() error { return e.err }

// Timeout reports whether the request was not sent because of its deadline. [net/url.Error] calls it.
func (e *Error) Timeout() bool {
	return errors.Is(e.err, core.ErrTooLate) ||
		errors.Is(e.err, context.DeadlineExceeded) && !errors.Is(e.err, core.ErrTimeout) // that of the store
}

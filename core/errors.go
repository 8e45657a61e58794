package core

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/sashlimit/sash/internal/errs"
)

// Errors that a [Decision], [Limiter.Usage] and [Limiter.Reset] carry, to be compared
// with [errors.Is].
const (
	// ErrStore: the store could not be asked; the policy decided.
	ErrStore constError = "sash: the store could not be asked"

	// ErrUnavailable is the ErrStore of a request that did not wait for a store that has been
	// failing, as in redisstore while a breaker is open.
	ErrUnavailable constError = "sash: the store has been failing, and the request did not wait for it"

	// ErrStoreFull is the ErrStore of a store that has no room even if it evicts all others: a
	// memstore with thousands of limits in a rule.
	ErrStoreFull constError = "sash: the store is full"

	// ErrTimeout: no answer within Config.Timeout. It is the cause ([context.Cause]) of the
	// end of a store's context, and a [context.DeadlineExceeded] too.
	ErrTimeout constError = "sash: no answer within the timeout"

	// ErrInvalid: a malformed request: an empty key, a negative cost, Limits not the rule's.
	ErrInvalid constError = "sash: invalid request"

	// ErrLimits: the limits of the request could not be found out, as by the function of
	// nethttp.WithLimiter. No store was asked.
	ErrLimits constError = "sash: the limits of the request could not be found out"
)

var (
	errEmptyKey     = fmt.Errorf("%w: the key is empty: every client needs a name", ErrInvalid)
	errNegativeCost = fmt.Errorf("%w: the cost is negative: costs are 0 or more", ErrInvalid)
)

// constError makes errors constants, so that no program can reassign them.
type constError string

func (e constError) Error() string { return string(e) }

// Is reports whether the error is also target: a full or an unavailable store is a
// store that could not be asked, and the timeout is a deadline.
func (e constError) Is(target error) bool {
	switch e {
	case ErrStoreFull, ErrUnavailable:
		return target == error(ErrStore)
	case ErrTimeout, ErrTooLate:
		return target == context.DeadlineExceeded
	}
	return false
}

// asStoreError returns err, wrapped if need be so that it matches ErrStore and says
// "sash:" once. Else it is returned as it is, so that a flood allocates nothing.
func asStoreError(err error) error {
	switch {
	case !errors.Is(err, ErrStore):
		return &storeError{cause: err}
	case strings.LastIndex(err.Error(), "sash: ") == 0:
		return err
	}
	return &errs.Worded{Err: err}
}

// remedyOf returns what an operator can do about an error of a store: what its method Remedy
// says, or where to look.
func remedyOf(err error) string {
	if known := errs.RemedyOf(err); known != "" {
		return known
	}
	if errors.Is(err, ErrStoreFull) {
		return "give the store more memory, or the rule fewer limits"
	}
	return "is the store up, and are the address, the password, TLS and the number of the database right? Is the " +
		"network open, and Config.Timeout several round trips? The Check of a redisstore tells more"
}

// storeError says that the store could not be asked, nor the fallback if that has
// failed too.
type storeError struct {
	cause    error
	fallback error // nil if the fallback has not failed
}

func (e *storeError) Error() string {
	text := string(ErrStore) + ": " + errs.Text(e.cause)
	if e.fallback != nil {
		text += "; nor could the fallback: " + errs.Text(e.fallback)
	}
	return text
}

// Is reports that the store could not be asked.
func (e *storeError) Is(target error) bool { return target == error(ErrStore) }

// Unwrap returns what the stores returned.
func (e *storeError) Unwrap() []error {
	if e.fallback == nil {
		return []error{e.cause}
	}
	return []error{e.cause, e.fallback}
}

// describe names a limiter in errors.
func describe(name, rule string) string {
	if rule == "" {
		return fmt.Sprintf("limiter %q", name)
	}
	return fmt.Sprintf("limiter %q, rule %q", name, rule)
}

// constructionError returns err with the names of the limiter that could not be made, if
// it has any.
func constructionError(name, rule string, err error) error {
	if name == "" && rule == "" {
		return err
	}
	return &errs.Worded{Words: describe(name, rule) + ": ", Err: err}
}

package core

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/sashlimit/sash/internal/errs"
)

// Errors, to be compared with [errors.Is]. The last two are of [Limiter.Wait].
var (
	ErrStore = errors.New("sash: the store failed") // the policy decided

	// These are an ErrStore too: a breaker is open; there is no room even if all others are evicted; or a function of
	// middleware for a request's limits or cost has failed, or its result is invalid.
	ErrUnavailable error = &wrappedError{"sash: the store has been failing: the request did not wait", ErrStore}
	ErrStoreFull         = errs.WithHint("give the store more memory, or the rule fewer limits",
		&wrappedError{"sash: the store is full", ErrStore})
	ErrLimits error = &wrappedError{"sash: the limits of the request are unknown", ErrStore}

	// ErrTimeout is the cause of the end of a store's context, and a [context.DeadlineExceeded] too.
	ErrTimeout error = &wrappedError{"sash: no answer within the timeout", context.DeadlineExceeded}

	// No store has decided: the call was malformed, or the key is unknown.
	ErrInvalid = errors.New("sash: invalid request") // such as an empty key, a negative cost, a limiter without limits
	ErrKey     = errors.New("sash: the key function failed")

	// ErrTooLate is a [context.DeadlineExceeded] too.
	ErrTooLate error = &wrappedError{"sash: the context ends before the request can pass", context.DeadlineExceeded}

	// ErrNever: the cost exceeds a limit. It is an [ErrStore] too where that is the share of a [Fallback].
	ErrNever = errors.New("sash: the request can never pass")
)

// wrappedError is an error that matches its parent, without the parent's text.
type wrappedError struct {
	text   string
	parent error
}

func (e *wrappedError) Error() string { return e.text }
func (e *wrappedError) Unwrap() error { return e.parent }

var (
	errEmptyKey     = fmt.Errorf("%w: the key is empty: every client needs a name", ErrInvalid)
	errNegativeCost = fmt.Errorf("%w: the cost is negative: costs are 0 or more", ErrInvalid)
)

// asStoreError returns err so that it matches ErrStore and says "sash:" once. An error that does is returned
// as it is, without an allocation.
func asStoreError(err error) error {
	switch {
	case !errors.Is(err, ErrStore):
		return &storeError{err}
	case strings.LastIndex(err.Error(), "sash: ") == 0:
		return err
	}
	return &errs.Error{Err: err}
}

// storeError is the error of a store. It matches ErrStore too.
type storeError struct{ err error }

func (e *storeError) Error() string        { return ErrStore.Error() + ": " + errs.Text(e.err) }
func (e *storeError) Is(target error) bool { return target == ErrStore }
func (e *storeError) Unwrap() error        { return e.err }

// withCause returns err, which also matches its cause unless that is nil.
func withCause(err, cause error) error {
	if cause == nil {
		return err
	}
	return &errs.Error{Err: fmt.Errorf("%w: %w", err, cause)}
}

// describe names a limiter in errors.
func describe(name, rule string) string {
	if rule == "" {
		return fmt.Sprintf("limiter %q", name)
	}
	return fmt.Sprintf("limiter %q, rule %q", name, rule)
}

// addNames returns err, the reason why a limiter cannot be made, with the limiter's names.
func addNames(name, rule string, err error) error {
	if name == "" && rule == "" {
		return err
	}
	return &errs.Error{Prefix: describe(name, rule) + ": ", Err: err}
}

// Stage is the last step of a request before the store failed.
type Stage uint8

const (
	StageUnknown     Stage = iota // nothing has failed, or the store does not say
	StageUnavailable              // the store has been failing, and the request did not wait; see [ErrUnavailable]
	StageQueued                   // the request waited in a queue of this process and was not sent
	StageConnect                  // there was no connection to the store's server
	StageReply                    // no reply came in time: the store may have counted the request
	StageLease                    // the request waited for units that another request was fetching
	StageFallback                 // the store of [Fallback] has failed too
)

var stageNames = [...]string{
	StageUnknown: "unknown", StageUnavailable: "unavailable", StageQueued: "queued", StageConnect: "connect",
	StageReply: "reply", StageLease: "lease", StageFallback: "fallback",
}

// String returns a word for logs and metric labels, such as "unavailable".
func (s Stage) String() string { return nameOf(stageNames[:], uint8(s), "Stage") }

// AtStage returns err with a stage and the same text. Stores use it.
func AtStage(s Stage, err error) error { return &stageError{err, s} }

// StageOf returns the stage of an error: that of [AtStage], or one that follows from its type.
func StageOf(err error) Stage {
	if se, ok := errors.AsType[*stageError](err); ok {
		return se.stage
	}
	if errors.Is(err, ErrUnavailable) {
		return StageUnavailable
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return StageConnect
	}
	return StageUnknown
}

// stageError is an error with a stage.
type stageError struct {
	error
	stage Stage
}

func (e *stageError) Unwrap() error { return e.error }

// nameOf returns names[value], or the type and the value if there is no such name.
func nameOf(names []string, value uint8, of string) string {
	if int(value) < len(names) {
		return names[value]
	}
	return fmt.Sprintf("%s(%d)", of, value)
}

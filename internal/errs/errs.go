// Package errs holds parts of the errors of this module. Each text begins with "sash:" and has it only once, and
// arguments that hold a nil of any kind are refused at construction.
package errs

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// Text returns the text of err without any "sash:", for the middle of another error.
func Text(err error) string { return strings.ReplaceAll(err.Error(), "sash: ", "") }

// Error is an error whose text is "sash:", then Prefix, then the [Text] of Err.
type Error struct {
	Prefix string
	Err    error
}

func (e *Error) Error() string { return "sash: " + e.Prefix + Text(e.Err) }
func (e *Error) Unwrap() error { return e.Err }

// hintError is an error with a hint. core.Store documents its method for authors of stores.
type hintError struct {
	error
	hint string
}

func (e *hintError) Hint() string  { return e.hint }
func (e *hintError) Unwrap() error { return e.error }

// WithHint returns err with a hint, which says what an operator can do. It returns err itself if the hint is empty.
func WithHint(hint string, err error) error {
	if hint == "" {
		return err
	}
	return &hintError{err, hint}
}

// HintOf returns the hint of the outermost error that has one, or "".
func HintOf(err error) string {
	h, ok := errors.AsType[interface {
		error
		Hint() string
	}](err)
	if !ok {
		return ""
	}
	return h.Hint()
}

// IsNil reports whether v is nil or holds a nil pointer, function or map. The methods
// of such a value would fail at the first request.
func IsNil(v any) bool {
	if v == nil {
		return true
	}
	switch r := reflect.ValueOf(v); r.Kind() {
	case reflect.Pointer, reflect.Func, reflect.Map:
		return r.IsNil()
	}
	return false
}

// NilName describes a value for which IsNil reports true.
func NilName(v any) string {
	if v == nil {
		return "nil"
	}
	return fmt.Sprintf("a nil %T", v)
}

// Package errs holds what the errors of this module have in common: each says "sash:" once,
// at its beginning, and a nil argument of any kind is one at construction.
package errs

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// Text returns the text of err for the middle of another error: without "sash:" at the
// beginning or in between.
func Text(err error) string { return strings.ReplaceAll(err.Error(), "sash: ", "") }

// Worded is an error that says "sash:" once, then Words, then Err.
type Worded struct {
	Words string
	Err   error
}

func (e *Worded) Error() string { return "sash: " + e.Words + Text(e.Err) }
func (e *Worded) Unwrap() error { return e.Err }

// remedied is an error with a remedy. Its method is the one that core.Store tells authors of stores of.
type remedied struct {
	error
	remedy string
}

func (e *remedied) Remedy() string { return e.remedy }
func (e *remedied) Unwrap() error  { return e.error }

// WithRemedy returns err with what an operator can do about it, or err itself if the remedy is empty.
func WithRemedy(remedy string, err error) error {
	if remedy == "" {
		return err
	}
	return &remedied{err, remedy}
}

// RemedyOf returns the remedy of the outermost error that has one, or "".
func RemedyOf(err error) string {
	known, ok := errors.AsType[interface {
		error
		Remedy() string
	}](err)
	if !ok {
		return ""
	}
	return known.Remedy()
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

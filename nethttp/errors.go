package nethttp

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/sashlimit/sash/core"
)

var errNoKeyFunction = errors.New("sash: the key function is nil: give one, such as keyfuncs.RemoteIP")

// isNil reports whether v is nil, or a nil pointer or function. The methods of such a value
// would panic at the first request.
func isNil(v any) bool {
	if v == nil {
		return true
	}
	r := reflect.ValueOf(v)
	return (r.Kind() == reflect.Pointer || r.Kind() == reflect.Func) && r.IsNil()
}

// nilName describes a value for which isNil reports true.
func nilName(v any) string {
	if v == nil {
		return "nil"
	}
	return fmt.Sprintf("a nil %T", v)
}

// nameLimiter returns an error of construction with the names of the limiter, if it has
// any.
func nameLimiter(l *core.Limiter, err error) error {
	if l.Name() == "" && l.RuleName() == "" {
		return err
	}
	return &constructionError{l, err}
}

// constructionError is an error of construction that names the limiter.
type constructionError struct {
	limiter *core.Limiter
	err     error
}

func (e *constructionError) Error() string {
	return "sash: " + e.limiter.String() + ": " + withoutPrefix(e.err)
}
func (e *constructionError) Unwrap() error { return e.err }

// keyError marks an error of a key function. The error inside may match any other
// error, such as core.ErrStore.
type keyError struct{ err error }

func (e *keyError) Error() string { return "sash: the key function failed: " + withoutPrefix(e.err) }
func (e *keyError) Unwrap() error { return e.err }

func isKeyError(err error) bool { _, ok := errors.AsType[*keyError](err); return ok }

// withoutPrefix returns the text of err for the middle of another error, which says
// "sash:" at its beginning alone.
func withoutPrefix(err error) string { return strings.ReplaceAll(err.Error(), "sash: ", "") }

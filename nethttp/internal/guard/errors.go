package guard

import (
	"errors"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/internal/errs"
)

// ErrNoKeyFunction is the error of a guard without a key function.
var ErrNoKeyFunction = errors.New("sash: the key function is nil: give one, such as keyfuncs.RemoteIP")

// nameLimiter returns an error of construction with the names of the limiter, if it has
// any.
func nameLimiter(l *core.Limiter, err error) error {
	if l.Name() == "" && l.RuleName() == "" {
		return err
	}
	return &errs.Worded{Words: l.String() + ": ", Err: err}
}

// keyError marks an error of a key function. The error inside may match any other
// error, such as core.ErrStore.
type keyError struct{ err error }

func (e *keyError) Error() string { return "sash: the key function failed: " + errs.Text(e.err) }
func (e *keyError) Unwrap() error { return e.err }

func isKeyError(err error) bool { _, ok := errors.AsType[*keyError](err); return ok }

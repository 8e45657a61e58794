package guard

import (
	"errors"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/internal/errs"
)

// ErrNoKeyFunction is the error of a guard without a key function.
var ErrNoKeyFunction = errors.New("sash: the key function is nil: give one, such as keyfuncs.RemoteIP")

// keyError is a core.ErrKey with the error of the key function, which may match other errors, such as core.ErrStore.
type keyError struct{ err error }

func (e *keyError) Error() string   { return "sash: the key function failed: " + errs.Text(e.err) }
func (e *keyError) Unwrap() []error { return []error{core.ErrKey, e.err} }

package sashotel

import (
	"errors"
	"io"
	"net"

	"github.com/sashlimit/sash/core"
)

// kind is the kind of a store's error: the attribute error.type.
type kind uint8

const (
	timedOut kind = iota
	connection
	server
	unavailable
	full
	other
	kinds // how many there are

	noError = kinds
)

// kindNames are the values of error.type. Package sashprom has the same words.
var kindNames = [kinds]string{
	timedOut:    "timeout",
	connection:  "connection",
	server:      "server",
	unavailable: "unavailable",
	full:        "full",
	other:       "other",
}

// answered is implemented by the errors that a Redis server has answered.
type answered interface {
	error
	RedisError()
}

// storeError returns the kind of the error for which a store could not be asked, or
// noError.
func storeError(d *core.Decision) kind {
	if d.Err == nil || d.Source == core.Unasked || d.Source == core.Skipped {
		return noError
	}
	return kindOf(d.Err)
}

// kindOf returns the kind of err, which matches [core.ErrStore].
func kindOf(err error) kind {
	switch {
	case errors.Is(err, core.ErrUnavailable):
		return unavailable
	case errors.Is(err, core.ErrStoreFull):
		return full
	case errors.Is(err, core.ErrTimeout):
		return timedOut
	}
	if network, ok := errors.AsType[net.Error](err); ok {
		if network.Timeout() {
			return timedOut
		}
		return connection
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) {
		return connection
	}
	if _, ok := errors.AsType[answered](err); ok {
		return server
	}
	return other
}

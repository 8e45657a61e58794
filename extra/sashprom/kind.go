package sashprom

import (
	"errors"
	"io"
	"net"

	"github.com/sashlimit/sash/core"
)

// kind is the kind of a store's error.
type kind uint8

const (
	timedOut kind = iota
	connection
	server
	unavailable
	full
	other
	kinds // how many there are
)

var kindLabels = [kinds]string{
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

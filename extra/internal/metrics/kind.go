package metrics

import (
	"errors"
	"io"
	"net"

	"github.com/sashlimit/sash/core"
)

// Kind is the kind of a store's error.
type Kind uint8

// The kinds of errors.
const (
	timedOut Kind = iota
	connection
	server
	unavailable
	full
	unknown
	NoError
)

var kindNames = [NoError]string{"timeout", "connection", "server", "unavailable", "full", "other"}

// String returns the name of a kind. NoError's is empty.
func (k Kind) String() string {
	if k < NoError {
		return kindNames[k]
	}
	return ""
}

// redisError is implemented by the error replies of a Redis server.
type redisError interface {
	error
	RedisError()
}

// kindOf returns the kind of the error for which a store failed, or NoError.
func kindOf(d *core.Decision) Kind {
	switch err := d.Err; {
	case err == nil, d.Source == core.SourceNone, d.Source == core.SourceSkipped, errors.Is(err, core.ErrLimits):
		return NoError
	case errors.Is(err, core.ErrUnavailable):
		return unavailable
	case errors.Is(err, core.ErrStoreFull):
		return full
	case errors.Is(err, core.ErrTimeout):
		return timedOut
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed):
		return connection
	}
	if network, ok := errors.AsType[net.Error](d.Err); ok {
		if network.Timeout() {
			return timedOut
		}
		return connection
	}
	if _, ok := errors.AsType[redisError](d.Err); ok {
		return server
	}
	return unknown
}

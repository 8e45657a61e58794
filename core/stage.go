package core

import (
	"errors"
	"net"
)

// Stage says how far a request came before the store failed: where the time of a slow
// decision went, and whether the store may have counted the request.
type Stage uint8

const (
	StageUnknown  Stage = iota // nothing has failed, or the store does not say
	StageNotAsked              // the request did not wait for a store that has been failing; see [ErrUnavailable]
	StageQueued                // the request waited for its turn in this process and was not sent
	StageConnect               // there was no connection to the store's server
	StageReply                 // no reply came in time: the store may have counted the request
	StageLease                 // the request waited for units that another request was fetching
	StageFallback              // the store of [Fallback] has failed too
)

var stageNames = [...]string{
	StageUnknown: "unknown", StageNotAsked: "not asked", StageQueued: "queued", StageConnect: "connect",
	StageReply: "reply", StageLease: "lease", StageFallback: "fallback",
}

// String returns a word for logs and metric labels, such as "not asked".
func (s Stage) String() string { return word(stageNames[:], uint8(s), "Stage") }

// AtStage returns err with a stage, for stores. The text stays the same.
func AtStage(s Stage, err error) error { return &stageError{s, err} }

// StageOf returns the stage at which a decision failed with err: that of [AtStage], the
// outermost if there are several, or what the error shows by itself.
func StageOf(err error) Stage {
	if staged, ok := errors.AsType[*stageError](err); ok {
		return staged.stage
	}
	if errors.Is(err, ErrUnavailable) {
		return StageNotAsked
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return StageConnect
	}
	return StageUnknown
}

// stageError is an error with a stage.
type stageError struct {
	stage Stage
	err   error
}

func (e *stageError) Error() string { return e.err.Error() }
func (e *stageError) Unwrap() error { return e.err }

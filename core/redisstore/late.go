package redisstore

import (
	"errors"
	"fmt"
	"io"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore/internal/gather"
)

// errLate says that no reply has come until the deadline.
var errLate = core.AtStage(core.StageReply, fmt.Errorf("sash: waiting for Redis: %w", core.ErrTimeout))

// errQueued says that a request has not been sent until the deadline.
var errQueued = core.AtStage(core.StageQueued, fmt.Errorf("sash: waiting to ask Redis: %w", core.ErrTimeout))

// lateOr returns err with its remedy, or errLate for an error of the connection once the deadline
// has passed: the connection has the same deadline, and may be the first to notice.
func lateOr(ctx *gather.Patience, err error) error {
	switch {
	case err == nil, isReply(err):
	case ctx.Passed():
		return errLate
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF): // words that say too little in a log
		return fmt.Errorf("sash: the connection to Redis broke: %w", err)
	}
	return remedied(err)
}

// judge returns what a server is judged by: its breaker is told by tell, and a cluster's
// slots are loaded again if the server has not answered in time.
func (c *client) judge(b *breaker, tell func(error)) func(error) {
	return func(err error) {
		if isFailure(err) && !isCallers(err) {
			b.failed(err) // before the breaker opens
		}
		tell(err)
		if err == errLate {
			c.suspect()
		}
	}
}

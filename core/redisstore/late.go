package redisstore

import (
	"fmt"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/internal/gather"
)

// errLate says that no reply has come until the deadline.
var errLate = core.AtStage(core.StageReply, fmt.Errorf("sash: waiting for Redis: %w", core.ErrTimeout))

// lateOr returns err, or errLate for an error of the connection once the deadline
// has passed: the connection has the same deadline, and may be the first to notice.
func lateOr(ctx *gather.Patience, err error) error {
	if err != nil && !isReply(err) && ctx.Passed() {
		return errLate
	}
	return err
}

// late returns what is to happen when a server has not answered in time: its
// breaker is told, and a cluster's slots are loaded again.
func (c *client) late(tell func(error)) func() {
	return func() {
		tell(errLate)
		c.suspect()
	}
}

// later returns the later of two times.
func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

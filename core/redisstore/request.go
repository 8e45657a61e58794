package redisstore

import (
	"fmt"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/internal/gather"
)

// request is what a caller asks of a server.
type request struct {
	counts *counts
	key    string
	cost   int64
	charge bool
	args   []any // the script's call for this request alone; nil for batches, which build one for all
}

// Requests that wait together are decided together.
type (
	queue = gather.Queue[request, core.Decision]
	call  = gather.Call[request, core.Decision]
)

const (
	// A caller that serves its own call judges the server at its deadline. A server
	// is given DefaultTimeout; a millisecond less is what passes, at the default
	// Config.Timeout, between the start of a decision and the call.
	inlineMin = core.DefaultTimeout - time.Millisecond

	// A caller that serves its own call and is cancelled stays until its deadline:
	// see New.
	inlineMax = time.Second
)

// newQueue returns a queue with batches that serve answers. exact says that serve
// returns at a batch's deadline: then callers with little company serve their own
// calls.
func newQueue(serve func([]*call) bool, exact bool) *queue {
	config := gather.Config[request, core.Decision]{
		Serve:       serve,
		ErrLate:     errLate,
		ErrLeft:     ended,
		MinPatience: core.DefaultTimeout,
	}
	if exact {
		config.InlineMin, config.InlineMax = inlineMin, inlineMax
	}
	return gather.New(config)
}

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

// alone has the script decide a call by itself that was to be decided together
// with others, and was not.
func alone(c *call) {
	r := &c.Request
	c.Answer(r.counts.askAlone(c.Context, c.Deadline, r.key, r.cost, r.charge))
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

package server

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// transport sends commands through the user's client.
type transport struct {
	RDB redis.UniversalClient // the user's

	// Single is a client on the pool of RDB with connections that honor deadlines, if RDB is for a single server.
	// Otherwise it is nil.
	Single *redis.Client

	cluster *redis.ClusterClient // RDB, if it is one

	Scripts, NoScripts              atomic.Uint64 // see redisstore.Stats
	Batches, Requests, LargestBatch atomic.Uint64
}

// countBatch counts a batch.
func (t *transport) countBatch(size uint64) {
	t.Batches.Add(1)
	t.Requests.Add(size)
	for most := t.LargestBatch.Load(); size > most && !t.LargestBatch.CompareAndSwap(most, size); {
		most = t.LargestBatch.Load()
	}
}

// process sends commands to a server, in one write. A panic of go-redis is their error.
func process(ctx context.Context, via redis.UniversalClient, cmds ...*command) {
	defer func() {
		if p := recover(); p != nil {
			for _, cmd := range cmds {
				cmd.SetErr(PanicError(p))
			}
		}
	}()
	if len(cmds) == 1 {
		_ = via.Process(ctx, cmds[0])
		return
	}
	pipe := via.Pipeline()
	for _, cmd := range cmds {
		_ = pipe.Process(ctx, cmd)
	}
	_, _ = pipe.Exec(ctx)
}

// retry sends a command again whose script has not run: by its source to a server that does not know the hash, to the
// server of a slot that has moved, and after a pause while a slot is moving.
func (t *transport) retry(ctx context.Context, cmd *command) {
	via, canFollow := t.within(ctx), t.cluster != nil
	for pause := time.Millisecond; ; {
		args := cmd.Args()
		switch err := cmd.Err(); {
		case HasCode(err, "NOSCRIPT") && args[0] == "evalsha":
			t.NoScripts.Add(1)
			args = append([]any{"eval", cmd.calls[0].Request.source()}, args[2:]...)
		case HasCode(err, "MOVED", "ASK") && canFollow:
			canFollow = false // the client of the cluster does
		case HasCode(err, "TRYAGAIN") && Rest(ctx, pause):
			pause *= 2
		default:
			return
		}
		t.Scripts.Add(1)
		cmd.StringCmd = *redis.NewStringCmd(ctx, args...)
		process(ctx, via, cmd)
	}
}

// within returns the client to use until ctx ends. Where it can, its connection waits exactly that long.
func (t *transport) within(ctx context.Context) redis.UniversalClient {
	if _, ok := ctx.Deadline(); ok && t.Single != nil {
		return t.Single
	}
	return t.RDB
}

// Rest pauses, and reports whether ctx lasts longer. If not, it returns at once, so that the last error is known in
// time.
func Rest(ctx context.Context, pause time.Duration) bool {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= pause {
		return false
	}
	select {
	case <-time.After(pause):
		return true
	case <-ctx.Done():
		return false
	}
}

package app

import (
	"context"
	"log/slog"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore"
)

// checkTimeout is enough for a near Redis, which takes about 50 ms. Leave a second to a far
// one. In the time of a check a hostile server can send hundreds of megabytes.
const checkTimeout = 200 * time.Millisecond

// Check logs what is wrong with the Redis that the limiters count in. The server starts
// all the same: the limits hold as soon as Redis is fit.
func Check(ctx context.Context, store core.Store, log *slog.Logger) {
	redis, ok := store.(*redisstore.Store)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	if err := redis.Check(ctx); err != nil {
		log.Warn("Redis is not fit for counting", "error", err.Error())
	}
}

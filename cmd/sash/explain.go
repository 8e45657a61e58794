package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore"
)

// explain returns the error of usage or reset with a hint for the operator. If the server has answered, explain sends
// further requests, for up to timeout.
func explain(ctx context.Context, store *redisstore.Store, timeout time.Duration, err error) error {
	switch {
	case strings.Contains(err.Error(), "MOVED "):
		return fmt.Errorf("%w\nsash: the server is one of a cluster, and another one holds the client: "+
			"give the URL of the server that stands behind MOVED", err)
	case !errors.Is(err, core.ErrStore), errors.Is(err, redisstore.ErrCorrupt):
		return err
	case errors.Is(err, core.ErrTimeout):
		return fmt.Errorf("%w\nsash: is the server up, is the address right, is the network open?\n"+
			"sash: is the URL rediss:// where the server speaks TLS, and only there?", err)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return errors.Join(err, store.Check(ctx))
}

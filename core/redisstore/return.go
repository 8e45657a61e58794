package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/sashlimit/sash/core"
)

// returning returns the script by which units are given back, whatever the rule.
var returning = sync.OnceValue(func() script { return newScript(renderScript("return", nil, nil)) })

// Return implements [core.Counts]. It sends a script of its own, once; a refusal that is remembered ends whatever
// becomes of it, since the units may have gone back.
func (r *remembered) Return(ctx context.Context, back core.Back) (int64, error) {
	store, s := r.counts.store, returning()
	reply, err := store.client.eval(ctx, time.Time{}, r.counts.returnCommand(s, back), s.source)
	store.refusals.Changed(back.Key)
	if err != nil {
		return 0, err
	}
	units, err := strconv.ParseInt(reply, 10, 64)
	if err != nil || units < 0 || units > back.Units {
		return 0, fmt.Errorf("%w: %.200q", errReply, reply)
	}
	return units, nil
}

// returnCommand returns the call of the script s for a Return.
func (c *counts) returnCommand(s script, back core.Back) []any {
	args := make([]any, 0, 5+3*len(c.rule.Limits))
	args = c.keys(append(args, "evalsha", s.sha, c.numkeys), back.Key)
	args = append(args, strconv.FormatInt(back.At.UnixMicro(), 10), strconv.FormatInt(back.Units, 10))
	for _, l := range c.rule.Limits {
		args = append(args, formatOf(l.Algorithm).steps, micros(l.Window))
	}
	return args
}

package redisstore

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"time"

	"github.com/sashlimit/sash/core"
)

//go:embed return.lua
var returnSource string

// returning is the script by which units are given back, whatever the rule.
var returning = newScript(compact(returnSource))

// Return implements [core.Counts]. It sends a script of its own, once; a refusal that is remembered ends whatever
// becomes of it, since the units may have gone back.
func (r *remembered) Return(ctx context.Context, back core.Back) (int64, error) {
	store := r.counts.store
	reply, err := store.client.eval(ctx, time.Time{}, r.counts.returnCommand(returning, back), returning.source)
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

// returnCommand returns the call of the script s for a Return. first are arguments before all others.
func (c *counts) returnCommand(s script, back core.Back, first ...any) []any {
	args := make([]any, 0, 5+3*len(c.suffixes))
	args = append(c.keys(append(args, "evalsha", s.sha, c.numkeys), back.Key), first...)
	args = append(args, strconv.FormatInt(back.At.UnixMicro(), 10), strconv.FormatInt(back.Units, 10))
	for _, l := range c.rule.Limits {
		args = append(args, formatOf(l.Algorithm).steps, micros(l.Window))
	}
	return args
}

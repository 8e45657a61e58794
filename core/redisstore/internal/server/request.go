package server

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore/internal/batch"
	"github.com/sashlimit/sash/core/redisstore/internal/script"
)

// Request is a request on its way to a server: a decision, a Usage, or a command.
type Request struct {
	core.Ask
	Rule    *script.Rule
	Usage   []core.Usage // for a Usage, which is a request of cost 0: filled in from the reply
	Command *Command     // for a command
}

// Command is a command whose reply is a number: a script that gives units back, or a DEL.
type Command struct {
	Args   []any
	Source string // of a script
	Result int64
}

// source returns the script of the request.
func (r *Request) source() string {
	if r.Command != nil {
		return r.Command.Source
	}
	return r.Rule.Script.Source
}

// sharesScript reports whether two requests may be decided by one script.
func (r *Request) sharesScript(o *Request) bool {
	return r.Command == nil && o.Command == nil && r.Rule.Script.SHA == o.Rule.Script.SHA
}

// read reads the reply to a command.
func (c *Command) read(reply string) (err error) {
	if c.Result, err = strconv.ParseInt(reply, 10, 64); err != nil {
		return script.NotRead(reply)
	}
	return nil
}

// call is a request that waits for its answer.
type call = batch.Call[Request, core.Decision]

// command is a script, or another command, on its way to a server, and its reply. go-redis does not repeat it: it may
// have run although its reply was lost.
type command struct {
	redis.StringCmd
	calls []*call // that it answers
}

// NoRetry implements [redis.Cmder].
func (*command) NoRetry() bool { return true }

func newCommand(ctx context.Context, args []any, calls []*call) *command {
	return &command{*redis.NewStringCmd(ctx, args...), calls}
}

// encode returns the commands for a batch: a script for each request, or, if shared, one for all that have the same.
func encode(ctx context.Context, calls []*call, shared bool) (cmds []*command) {
	if len(calls) == 1 {
		return []*command{newCommand(ctx, commandArgs(calls), calls)}
	}
	return encodeGroups(ctx, calls, shared)
}

// encodeGroups is encode for several requests.
func encodeGroups(ctx context.Context, calls []*call, shared bool) (cmds []*command) {
	var groups [][]*call
	for _, c := range calls {
		i := slices.IndexFunc(groups, func(g []*call) bool { return shared && g[0].Request.sharesScript(&c.Request) })
		if i < 0 {
			i, groups = len(groups), append(groups, nil)
		}
		groups[i] = append(groups[i], c)
	}
	for _, g := range groups {
		cmds = append(cmds, newCommand(ctx, commandArgs(g), g))
	}
	return cmds
}

// commandArgs returns the arguments of the command for one request, or for several that share a script.
func commandArgs(calls []*call) []any {
	if c := calls[0].Request.Command; c != nil {
		return c.Args
	}
	requests := make([]script.Request, 0, batch.MaxBatch) // on the stack
	for _, c := range calls {
		requests = append(requests, script.Request{Rule: c.Request.Rule, Ask: &c.Request.Ask})
	}
	return script.EvalArgs(requests)
}

// read calls f with each call of a command and its part of the reply, or err.
func (cmd *command) read(err error, f func(c *call, d core.Decision, err error)) {
	var now int64
	rest := cmd.Val()
	if c := cmd.calls[0].Request.Command; c != nil && err == nil {
		f(cmd.calls[0], core.Decision{}, c.read(rest))
		return
	}
	if err == nil {
		now, rest, err = script.ReadTime(rest)
	}
	for i, c := range cmd.calls {
		d, own := core.Decision{}, err
		if err == nil {
			d, rest, own = c.Request.Rule.Read(rest, now, &c.Request.Ask, c.Request.Usage)
			if own == nil && rest != "" && i == len(cmd.calls)-1 {
				own = script.NotRead(rest)
			}
			if own != nil {
				own = withHint(own)
			}
			if errors.Is(own, script.ErrReply) {
				err = own // where the next part begins is not known
			}
		}
		f(c, d, own)
	}
}

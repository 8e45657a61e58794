//go:build !race && !short

package script_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore/internal/script"
)

// counts are those of a server, by the scripts alone: each request is sent by itself, and errors are returned as they
// are.
type counts struct{ rdb redis.UniversalClient }

// Bind implements [core.Store].
func (c counts) Bind(rule core.Binding) (core.Ledger, error) { return c.bind(rule), nil }

func (c counts) bind(rule core.Binding) *ledger {
	return &ledger{c.rdb, script.New("sash", rule, script.Decide(false, rule.Limits))}
}

// ledger is how a server counts by a rule.
type ledger struct {
	rdb  redis.UniversalClient
	rule script.Rule
}

// bind returns how a server counts by limits.
func bind(t *testing.T, rdb redis.UniversalClient, limits ...core.Limit) *ledger {
	t.Helper()
	l, err := core.New(core.Config{Name: "test", Store: counts{rdb}, Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	return counts{rdb}.bind(core.Binding{Name: "test", Limits: l.Limits()})
}

// once is a command that go-redis does not repeat.
type once struct{ redis.Cmd }

func (*once) NoRetry() bool { return true }

// send sends a script by its hash, and by its source if the server does not know the hash.
func (l *ledger) send(ctx context.Context, args []any, source string) (string, error) {
	cmd := &once{*redis.NewCmd(ctx, args...)}
	if redis.HasErrorPrefix(l.rdb.Process(ctx, cmd), "NOSCRIPT") {
		cmd = &once{*redis.NewCmd(ctx, append([]any{"eval", source}, args[2:]...)...)}
		_ = l.rdb.Process(ctx, cmd)
	}
	return cmd.Text()
}

// Take implements [core.Ledger].
func (l *ledger) Take(ctx context.Context, ask core.Ask) (core.Decision, error) {
	reply, err := l.send(ctx, l.rule.Call(&ask), l.rule.Script.Source)
	if err != nil {
		return core.Decision{}, err
	}
	return l.rule.ReadAlone(reply, &ask, nil)
}

// Usage implements [core.Ledger].
func (l *ledger) Usage(ctx context.Context, key string) ([]core.Usage, error) {
	ask, uses := core.Ask{Key: key}, make([]core.Usage, len(l.rule.Limits))
	reply, err := l.send(ctx, l.rule.Call(&ask), l.rule.Script.Source)
	if err == nil {
		_, err = l.rule.ReadAlone(reply, &ask, uses)
	}
	if err != nil {
		return nil, err
	}
	return uses, nil
}

// Return implements [core.Ledger].
func (l *ledger) Return(ctx context.Context, back core.Refund) (int64, error) {
	s := script.Return()
	reply, err := l.send(ctx, l.rule.ReturnCall(s, back), s.Source)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(reply, 10, 64)
}

// Reset implements [core.Ledger].
func (l *ledger) Reset(ctx context.Context, key string) error {
	return l.rdb.Do(ctx, l.rule.Keys([]any{"del"}, key)...).Err()
}

// readAlone reads the script's reply to a request by itself.
func (l *ledger) readAlone(reply string, ask *core.Ask) (core.Decision, error) {
	return l.rule.ReadAlone(reply, ask, nil)
}

// ahead returns l with requests counted so far ahead, as a lease takes them.
func ahead(l *ledger, by time.Duration) *ledger {
	return &ledger{l.rdb, l.rule.With(l.rule.Limits, by, script.Decide(true, l.rule.Limits))}
}

// request is a request by a rule.
type request struct {
	core.Ask
	ledger *ledger
}

// asking returns a request.
func asking(l *ledger, key string, cost int64, charge bool) request {
	return request{core.Ask{Key: key, Cost: cost, Peek: !charge}, l}
}

// command returns the script's call for requests together.
func command(batch []request) []any {
	var all []script.Request
	for i := range batch {
		all = append(all, script.Request{Rule: &batch[i].ledger.rule, Ask: &batch[i].Ask})
	}
	return script.Together(all)
}

//go:build !race && !short

package script_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/core/redisstore/internal/script"
	"github.com/sashlimit/sash/internal/redistest"
)

var ctx = context.Background()

// ledger is how a server counts by a rule, by the scripts alone: each request is sent by itself, and errors are
// returned as they are.
type ledger struct {
	rdb  redis.UniversalClient
	rule script.Rule
}

// bind returns how a server counts by limits.
func bind(t *testing.T, rdb redis.UniversalClient, limits ...core.Limit) *ledger {
	t.Helper()
	l, err := core.New(core.Config{Store: memstore.New(), Limits: limits}) // which names the limits
	if err != nil {
		t.Fatal(err)
	}
	rule := core.Binding{Name: "test", Limits: l.Limits()}
	return &ledger{rdb, script.New("sash", rule, decide(false, rule.Limits))}
}

// decide is script.Decide, which takes long, once for each shape.
func decide(lease bool, limits []core.Limit) script.Script {
	shape := script.Shape(lease, limits)
	s, ok := decideScripts.Load(shape)
	if !ok {
		s, _ = decideScripts.LoadOrStore(shape, script.Decide(lease, limits))
	}
	return s.(script.Script)
}

var decideScripts sync.Map

// with returns l with other limits on the same counts, and with requests counted so far ahead, as a lease takes them.
func (l *ledger) with(limits []core.Limit, ahead time.Duration) *ledger {
	return &ledger{l.rdb, l.rule.With(limits, ahead, decide(ahead > 0, limits))}
}

// key returns the key of a client under the first limit.
func (l *ledger) key(client string) string { return l.rule.Keys(nil, client)[0].(string) }

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

// take decides a request.
func (l *ledger) take(ask core.Ask) (core.Decision, error) {
	reply, err := l.send(ctx, l.evalArgs(ask), l.rule.Script.Source)
	if err != nil {
		return core.Decision{}, err
	}
	return l.rule.ReadAlone(reply, &ask, nil)
}

// giveBack takes units back.
func (l *ledger) giveBack(back core.Refund) (int64, error) {
	s := script.Return()
	reply, err := l.send(ctx, l.rule.ReturnArgs(s, back), s.Source)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(reply, 10, 64)
}

// longer is how much longer than by the script a key of a clocked script lives: Redis
// expires keys by its own clock, which goes on while a busy machine runs a test.
const longer = time.Hour

// clocked is a script with two changes: the time comes from the first two
// arguments, see at, instead of the server; and keys live longer.
func clocked(t *testing.T, source string) script.Script {
	t.Helper()
	if s, ok := clockedScripts.Load(source); ok {
		return s.(script.Script)
	}
	const time = "call('TIME')"
	if strings.Count(source, time) != 1 {
		t.Fatal("the script must read the time once")
	}
	changed := strings.Replace(source, time, "{table.remove(ARGV, 1), table.remove(ARGV, 1)}", 1)
	const ttl = " / 1000 + 1000"
	if !strings.Contains(changed, ttl) {
		t.Fatal("the script must give keys a TTL")
	}
	s := script.Make(strings.ReplaceAll(changed, ttl, fmt.Sprint(ttl, " + ", longer.Milliseconds())))
	clockedScripts.Store(source, s)
	return s
}

var clockedScripts sync.Map // by source: tests ask thousands of times

// callAt returns the call of a clocked script when the server's clock shows now.
func callAt(t *testing.T, s script.Script, args []any, now int64) []any {
	t.Helper()
	keys, err := strconv.Atoi(args[2].(string))
	if err != nil {
		t.Fatal(err)
	}
	args[1] = clocked(t, s.Source).SHA
	seconds, micros := strconv.FormatInt(now/1_000_000, 10), strconv.FormatInt(now%1_000_000, 10)
	return slices.Insert(args, 3+keys, any(seconds), any(micros))
}

// runAt returns the reply of a script when the server's clock shows now.
func (l *ledger) runAt(t *testing.T, s script.Script, args []any, now int64) string {
	t.Helper()
	reply, err := l.send(ctx, callAt(t, s, args, now), clocked(t, s.Source).Source)
	if err != nil {
		t.Fatal(err)
	}
	return reply
}

// askAt decides a request when the server's clock shows now.
func (l *ledger) askAt(t *testing.T, ask core.Ask, now int64) core.Decision {
	t.Helper()
	d, err := l.rule.ReadAlone(l.runAt(t, l.rule.Script, l.evalArgs(ask), now), &ask, nil)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// takeAt decides when the server's clock shows now.
func (l *ledger) takeAt(t *testing.T, key string, cost int64, charge bool, now int64) core.Decision {
	t.Helper()
	return l.askAt(t, core.Ask{Key: key, Cost: cost, Peek: !charge}, now)
}

// chargeAt counts cost units, whatever the limits say, when the server's clock shows now.
func (l *ledger) chargeAt(t *testing.T, key string, cost, now int64) core.Decision {
	t.Helper()
	return l.askAt(t, core.Ask{Key: key, Cost: cost, Override: &core.Override{Charge: true}}, now)
}

// returnAt takes back what a request has counted, when the server's clock shows now.
func (l *ledger) returnAt(t *testing.T, back core.Refund, now int64) int64 {
	t.Helper()
	s := script.Return()
	units, err := strconv.ParseInt(l.runAt(t, s, l.rule.ReturnArgs(s, back), now), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return units
}

// servers runs a test on a real server, on miniredis, and with Lua 5.4, at the same time.
func servers(t *testing.T, test func(t *testing.T, rdb *redis.Client)) {
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		test(t, redistest.Start(t).Client(t))
	})
	t.Run("miniredis", func(t *testing.T) {
		t.Parallel()
		test(t, slowClient(t, miniredis.RunT(t)))
	})
	t.Run("Lua 5.4", func(t *testing.T) {
		t.Parallel()
		rdb, _ := startLua54(t)
		test(t, rdb)
	})
}

// slowClient returns a client of a miniredis, where a script of a thousand commands takes seconds on a busy machine.
func slowClient(t *testing.T, m *miniredis.Miniredis) *redis.Client {
	rdb := redis.NewClient(&redis.Options{Addr: m.Addr(), ReadTimeout: time.Minute})
	t.Cleanup(func() { rdb.Close() })
	return rdb
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

// evalArgs returns the script's call for one request.
func (l *ledger) evalArgs(ask core.Ask) []any { return command([]request{{ask, l}}) }

// command returns the script's call for requests together.
func command(batch []request) []any {
	var all []script.Request
	for i := range batch {
		all = append(all, script.Request{Rule: &batch[i].ledger.rule, Ask: &batch[i].Ask})
	}
	return script.EvalArgs(all)
}

// together has the script decide requests together, and returns its reply.
func together(rdb *redis.Client, batch []request) (string, error) {
	source := batch[0].ledger.rule.Script.Source
	return rdb.Do(ctx, append([]any{"eval", source}, command(batch)[2:]...)...).Text()
}

// readTogether reads the reply to requests.
func readTogether(batch []request, reply string) (all []core.Decision, errs []error) {
	now, rest, err := script.ReadTime(reply)
	for i := range batch {
		var d core.Decision
		if err == nil || !errors.Is(err, script.ErrReply) {
			d, rest, err = batch[i].ledger.rule.Read(rest, now, &batch[i].Ask, nil)
		}
		if i == len(batch)-1 && rest != "" {
			err = script.NotRead(reply)
		}
		all, errs = append(all, d), append(errs, err)
	}
	return all, errs
}

// dump is all that Redis holds for a client, asked for in one round trip: half of what it asks of each key is an error,
// for a key of another type.
func dump(t *testing.T, rdb *redis.Client, c *ledger, key string) string {
	t.Helper()
	answers, _ := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, k := range c.rule.Keys(nil, key) {
			p.Type(ctx, k.(string))
			p.Get(ctx, k.(string))
			p.LRange(ctx, k.(string), 0, -1)
		}
		return nil
	})
	if err := answers[0].Err(); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%q", fmt.Sprint(answers))
}

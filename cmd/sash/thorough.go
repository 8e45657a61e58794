package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore"
)

// promises are what sash promises of a server, each with a trial. A trial returns what it has seen. Its error says that
// the promise is broken, or, if it is an errUntried, that this could not be tried.
var promises = []promise{
	{"the server is fit for counting", (*trials).fit},
	{"two processes: exact for one client", race{most: 600, clients: 1}.try},
	{"two processes: exact for each of 64", race{most: 5, clients: 64}.try},
	{"exact while scripts are flushed",
		race{most: 600, clients: 1, disturb: (*trials).flush, every: 2 * time.Millisecond}.try},
	{"refused: let in when it was told", (*trials).expires},
	{"charges, returns and resets count", (*trials).verbs},
	{"no more while connections are cut", race{most: 600, clients: 1, disturb: (*trials).cut,
		every: 40 * time.Millisecond, pace: 10 * time.Millisecond, mayFail: true}.try},
}

type promise struct {
	text string
	try  func(*trials, context.Context) (seen string, err error)
}

type errUntried struct{ error }

// verdict says what became of a promise.
type verdict struct {
	Promise string `json:"promise"`
	Verdict string `json:"verdict"` // ok, WRONG or untried
	Seen    string `json:"seen"`
}

// judge tries a promise.
func (t *trials) judge(ctx context.Context, p promise) verdict {
	seen, err := p.try(t, ctx)
	v := verdict{p.text, "ok", seen}
	if err != nil {
		v.Verdict, v.Seen = "WRONG", err.Error()
	}
	if _, ok := errors.AsType[errUntried](err); ok {
		v.Verdict = "untried"
	}
	v.Seen = strings.ReplaceAll(withoutPassword(v.Seen), "\n", "; ")
	return v
}

// thoroughly tries all promises on the server of the flags, or on its cluster, and writes a line for each. Where the
// server makes no decisions it ends with the promise that shows it.
func thoroughly(ctx context.Context, s *settings, sys system, configTimeout time.Duration) error {
	t, err := newTrials(ctx, s, configTimeout)
	if err != nil {
		return &usageError{err}
	}
	defer t.close()
	var verdicts []verdict
	var found error
	wrong := 0
	for _, p := range promises {
		v := t.judge(ctx, p)
		if err := ctx.Err(); err != nil {
			return err
		}
		verdicts = append(verdicts, v)
		if !s.json {
			if err := write(sys.stdout, fmt.Sprintf("%-7s  %-35s  %s\n", v.Verdict, v.Promise, v.Seen)); err != nil {
				return err
			}
		}
		if v.Verdict != "WRONG" {
			continue
		}
		wrong++
		found = fmt.Errorf("sash: %d of %d promises do not hold on this server", wrong, len(promises))
		if err := t.decide(ctx); err != nil {
			found = errors.New("sash: the server makes no decisions: the other promises are not tried")
			break
		}
	}
	if s.json {
		err = writeJSON(sys, map[string]any{"ok": wrong == 0, "promises": verdicts})
	}
	return errors.Join(err, found)
}

// trials have two stores with clients of their own, as two processes have.
type trials struct {
	settings *settings
	rdb      [2]redis.UniversalClient
	stores   [2]*redisstore.Store

	isCluster bool
	cutNext   atomic.Bool // the next connection that is written to is closed then
}

func newTrials(ctx context.Context, s *settings, configTimeout time.Duration) (*trials, error) {
	t := &trials{settings: s}
	for i := range t.stores {
		o, err := redis.ParseURL(s.url)
		if err != nil {
			return nil, err // not once redisstore.Open has parsed it
		}
		dial := redis.NewDialer(o)
		o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := dial(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return &cutConn{conn, &t.cutNext}, nil
		}
		o.ContextTimeoutEnabled = true
		single := redis.NewClient(o)
		t.rdb[i] = single
		if i == 0 { // INFO, which says it too, may be forbidden
			asking, cancel := context.WithTimeout(ctx, s.timeout)
			t.isCluster = single.ClusterSlots(asking).Err() == nil
			cancel()
		}
		if t.isCluster {
			_ = single.Close()
			t.rdb[i] = redis.NewClusterClient(&redis.ClusterOptions{
				Addrs: []string{o.Addr}, Dialer: o.Dialer, TLSConfig: o.TLSConfig,
				Username: o.Username, Password: o.Password, Protocol: o.Protocol,
			})
		}
		t.stores[i] = redisstore.New(t.rdb[i], redisstore.WithPrefix(s.prefix))
	}
	// Check compares the time of a round trip with the timeouts of the limiters on the store.
	_, err := core.New(core.Config{Store: t.stores[0], Limits: []core.Limit{core.PerDay(1)}, Timeout: configTimeout,
		Observer: core.Silent})
	return t, err
}

func (t *trials) close() {
	for _, rdb := range t.rdb {
		_ = rdb.Close()
	}
}

// limiters returns a limiter on each store, of a name that nothing else has.
func (t *trials) limiters(limits ...core.Limit) (ls [2]*core.Limiter) {
	name := "check-" + rand.Text()
	for i, store := range t.stores {
		ls[i] = core.Must(core.New(core.Config{Name: name, Store: store, Limits: limits,
			Timeout: t.settings.timeout, OnStoreError: core.FailClosed, Observer: core.Silent}))
	}
	return ls
}

// flush has the server forget its scripts.
func (t *trials) flush(ctx context.Context) error { return t.rdb[0].ScriptFlush(ctx).Err() }

// cut has the reply to the next command lost.
func (t *trials) cut(context.Context) error {
	t.cutNext.Store(true)
	return nil
}

// cutConn is a connection of trials.
type cutConn struct {
	net.Conn
	next *atomic.Bool
}

func (c *cutConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if c.next.CompareAndSwap(true, false) {
		_ = c.Close()
	}
	return n, err
}

// fit is the Check of the store. It tells the versions that the server names, and whether INFO tells of eviction.
func (t *trials) fit(ctx context.Context) (string, error) {
	info := t.rdb[0].Info(ctx).Val()
	var says []string
	for line := range strings.Lines(info) {
		if name, _, _ := strings.Cut(line, ":"); strings.HasSuffix(name, "_version") && name != "gcc_version" {
			says = append(says, strings.TrimSpace(line))
		}
	}
	if !strings.Contains(info, "\nmaxmemory:") {
		says = append(says, "INFO has no maxmemory: look whether it evicts where its settings are")
	}
	return strings.Join(says, ", "), t.stores[0].Check(ctx)
}

// insist does again what fails, until the timeout: the breaker may be open for a moment, and a connection cut.
func (t *trials) insist(do func() error) error {
	for start := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if err := do(); err == nil || time.Since(start) > t.settings.timeout {
			return err
		}
	}
}

// decide returns an error if the server makes no decisions.
func (t *trials) decide(ctx context.Context) error {
	l := t.limiters(core.PerDay(1))[0]
	if err := t.insist(func() error { return l.Allow(ctx, "k").Err }); err != nil {
		return err
	}
	return l.Reset(ctx, "k")
}

// race has two stores decide about clients at once, more often than is allowed: under each algorithm, and under all.
type race struct {
	most    int64 // of the limit
	clients int
	disturb func(*trials, context.Context) error // what is done all the while, or nil
	every   time.Duration                        // from one disturbance to the next
	pace    time.Duration                        // from one request of a worker to the next
	mayFail bool                                 // whether decisions may fail of that
}

// workers is how many goroutines ask in a race.
const workers = 24

// raceResult adds up the races of a promise.
type raceResult struct {
	least                    int64 // admissions of a client
	asked, failed, disturbed int64 // decisions, and disturbances
}

func (r race) try(t *trials, ctx context.Context) (string, error) {
	var all []core.Limit
	var limits [][]core.Limit
	for _, a := range core.Algorithms() {
		all = append(all, core.Per(r.most, core.MaxWindow).Named(a.String()).Using(a))
		limits = append(limits, all[len(all)-1:])
	}
	scripts, batched := t.sent()
	seen := raceResult{least: r.most}
	for _, limits := range append(limits, all) {
		if err := r.under(t, ctx, limits, &seen); err != nil {
			return "", err
		}
	}
	text := fmt.Sprintf("%d admitted", r.most)
	if seen.least < r.most {
		text = fmt.Sprintf("%d to %s", seen.least, text)
	}
	if r.disturb != nil {
		text += fmt.Sprintf("; %d times disturbed, %d of %d decisions failed", seen.disturbed, seen.failed, seen.asked)
	}
	if s, b := t.sent(); r.clients > 1 && !t.isCluster && 4*(s-scripts) > 3*(b-batched) {
		text += fmt.Sprintf("; %d requests by %d scripts: they share none, as behind a proxy", b-batched, s-scripts)
	}
	return text, nil
}

// sent returns how many scripts the stores have sent, and for how many requests.
func (t *trials) sent() (scripts, requests uint64) {
	for _, store := range t.stores {
		stats := store.Stats()
		scripts, requests = scripts+stats.Scripts, requests+stats.BatchedRequests
	}
	return scripts, requests
}

// under returns an error unless each client is admitted as often as limits allow, less the decisions that failed.
func (r race) under(t *trials, ctx context.Context, limits []core.Limit, seen *raceResult) error {
	ls, admitted := t.limiters(limits...), make([]atomic.Int64, r.clients)
	var failures atomic.Int64
	var failure atomic.Pointer[error]
	asks := (int(r.most)/20 + 1) * r.clients
	var group sync.WaitGroup
	for w := range workers {
		group.Go(func() {
			for i := range asks {
				client := (i + w) % r.clients
				d := ls[w%2].Allow(ctx, strconv.Itoa(client))
				if d.Err != nil {
					failures.Add(1)
					failure.Store(&d.Err)
				} else if d.Allowed {
					admitted[client].Add(1)
				}
				time.Sleep(r.pace)
			}
		})
	}
	disturbed, err := r.disturbDuring(t, ctx, &group)
	if err != nil {
		return errUntried{fmt.Errorf("the server forbids it: %w", err)}
	}
	failed, asked := failures.Load(), int64(workers*asks)
	for client := range admitted {
		n := admitted[client].Load()
		if n > r.most || n+failed < r.most || failed > 0 && !r.mayFail {
			return fmt.Errorf("%v: a client was admitted %d times, and %d of %d decisions failed, the last with: %w",
				limits, n, failed, asked, *cmp.Or(failure.Load(), new(errors.New("none"))))
		}
		seen.least = min(seen.least, n)
		if err := t.insist(func() error { return ls[0].Reset(ctx, strconv.Itoa(client)) }); err != nil {
			return err
		}
	}
	if failed > asked/2 {
		return errUntried{fmt.Errorf("%d of %d decisions failed, the last with: %w", failed, asked, *failure.Load())}
	}
	seen.asked, seen.failed, seen.disturbed = seen.asked+asked, seen.failed+failed, seen.disturbed+disturbed
	return nil
}

// disturbDuring disturbs until all goroutines of a group have ended, and returns how often.
func (r race) disturbDuring(t *trials, ctx context.Context, group *sync.WaitGroup) (times int64, err error) {
	done := make(chan struct{})
	go func() { group.Wait(); close(done) }()
	tick := time.Tick(max(r.every, 1))
	for r.disturb != nil && err == nil {
		select {
		case <-tick:
			times++
			err = r.disturb(t, ctx)
			continue
		case <-done:
		}
		break
	}
	<-done
	return times, err
}

// expires tries whether a client that is refused is let in when it was told, and whether its key has a TTL.
func (t *trials) expires(ctx context.Context) (string, error) {
	ls := t.limiters(core.Per(5, time.Second))
	took := ls[0].AllowN(ctx, "k", 5)
	refused := ls[1].Allow(ctx, "k")
	ttl := t.rdb[0].PTTL(ctx, t.settings.prefix+":{"+ls[0].Name()+"//k}:l1s").Val()
	time.Sleep(refused.RetryAfter)
	again := ls[1].Allow(ctx, "k")
	if err := errors.Join(took.Err, refused.Err, again.Err); err != nil {
		return "", err
	}
	slow := refused.At.Sub(took.At) >= time.Second // it may be let in
	if !slow && (refused.Allowed || !again.Allowed) || ttl == -1 || ttl > 3*time.Second {
		return "", fmt.Errorf("%+v, then %+v, then %+v; the TTL was %v", took, refused, again, ttl)
	}
	return fmt.Sprintf("after %v", refused.RetryAfter.Round(time.Millisecond)), ls[0].Reset(ctx, "k")
}

// verbs tries a Return, a Charge and a Reset under each algorithm.
func (t *trials) verbs(ctx context.Context) (string, error) {
	for _, a := range core.Algorithms() {
		ls := t.limiters(core.Per(10, core.MaxWindow).Using(a))
		reserved := ls[0].Reserve(ctx, core.Request{Key: "k", Cost: 5})
		back, err := reserved.Return(ctx, 3)
		charged := ls[1].Charge(ctx, "k", 9)
		before, err2 := ls[0].Usage(ctx, "k")
		err = errors.Join(err, reserved.Decision.Err, charged.Err, err2, ls[1].Reset(ctx, "k"))
		after, err2 := ls[0].Usage(ctx, "k")
		if err = errors.Join(err, err2); err != nil {
			return "", fmt.Errorf("%v: %w", a, err)
		}
		if back != 3 || before[0].Used != 11 || after[0].Used != 0 {
			return "", fmt.Errorf("%v: %d of 5 came back, %d are counted with 9 more, and %d after a reset",
				a, back, before[0].Used, after[0].Used)
		}
	}
	return "", nil
}

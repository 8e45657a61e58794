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

// checks are the checks that sash makes about a server, each with its test. A test returns its observations. Its
// error means that the promise is broken, or, if it is an errSkipped, that it could not be tested.
var checks = []promise{
	{"the server is fit for counting", (*tester).checkStore},
	{"two processes: exact for one client", race{most: 600, clients: 1}.try},
	{"two processes: exact for each of 64", race{most: 5, clients: 64}.try},
	{"exact while scripts are flushed",
		race{most: 600, clients: 1, fault: (*tester).flush, every: 2 * time.Millisecond}.try},
	{"refused: let in when it was told", (*tester).expires},
	{"charges, returns and resets count", (*tester).verbs},
	{"no more while connections are cut", race{most: 600, clients: 1, fault: (*tester).cut,
		every: 40 * time.Millisecond, pace: 10 * time.Millisecond, mayFail: true}.try},
}

type promise struct {
	text string
	try  func(*tester, context.Context) (seen string, err error)
}

type errSkipped struct{ error }

// promiseResult is the result of testing a promise.
type promiseResult struct {
	Promise string `json:"promise"`
	Result  string `json:"result"` // ok, WRONG or skipped
	Seen    string `json:"seen"`
}

// try tests a promise.
func (t *tester) try(ctx context.Context, p promise) promiseResult {
	seen, err := p.try(t, ctx)
	v := promiseResult{p.text, "ok", seen}
	if err != nil {
		v.Result, v.Seen = "WRONG", err.Error()
	}
	if _, ok := errors.AsType[errSkipped](err); ok {
		v.Result = "skipped"
	}
	v.Seen = strings.ReplaceAll(withoutPassword(v.Seen), "\n", "; ")
	return v
}

// runChecks tests all promises on the server of the flags, or on its cluster, and writes a line for each. If the
// server makes no decisions, it stops at the first broken promise.
func runChecks(ctx context.Context, s *settings, sys system, configTimeout time.Duration) error {
	t, err := newTester(ctx, s, configTimeout)
	if err != nil {
		return &usageError{err}
	}
	defer t.close()
	var results []promiseResult
	var found error
	wrong := 0
	for _, p := range checks {
		v := t.try(ctx, p)
		if err := ctx.Err(); err != nil {
			return err
		}
		results = append(results, v)
		if !s.json {
			if err := write(sys.stdout, fmt.Sprintf("%-7s  %-35s  %s\n", v.Result, v.Promise, v.Seen)); err != nil {
				return err
			}
		}
		if v.Result != "WRONG" {
			continue
		}
		wrong++
		found = fmt.Errorf("sash: %d of %d promises do not hold on this server", wrong, len(checks))
		if err := t.decide(ctx); err != nil {
			found = errors.New("sash: the server makes no decisions: the other promises are not tried")
			break
		}
	}
	if s.json {
		err = writeJSON(sys, map[string]any{"ok": wrong == 0, "promises": results})
	}
	return errors.Join(err, found)
}

// tester has two stores, each with its own Redis client, like two processes.
type tester struct {
	settings *settings
	rdb      [2]redis.UniversalClient
	stores   [2]*redisstore.Store

	isCluster bool
	cutNext   atomic.Bool // close the connection of the next write after it
}

func newTester(ctx context.Context, s *settings, configTimeout time.Duration) (*tester, error) {
	t := &tester{settings: s}
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
		if i == 0 { // INFO has it too, but may be forbidden
			asking, cancel := context.WithTimeout(ctx, s.timeout)
			t.isCluster = single.Do(asking, "cluster", "slots").Err() == nil
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

func (t *tester) close() {
	for _, rdb := range t.rdb {
		_ = rdb.Close()
	}
}

// limiters returns a limiter on each store, with a unique name.
func (t *tester) limiters(limits ...core.Limit) (ls [2]*core.Limiter) {
	name := "check-" + rand.Text()
	for i, store := range t.stores {
		ls[i] = core.Must(core.New(core.Config{Name: name, Store: store, Limits: limits,
			Timeout: t.settings.timeout, OnStoreError: core.FailClosed, Observer: core.Silent}))
	}
	return ls
}

// flush removes the server's scripts.
func (t *tester) flush(ctx context.Context) error { return t.rdb[0].ScriptFlush(ctx).Err() }

// cut loses the reply to the next command.
func (t *tester) cut(context.Context) error {
	t.cutNext.Store(true)
	return nil
}

// cutConn is a connection that tester can cut.
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

// checkStore calls the store's Check. It returns the versions in INFO, and a hint if INFO has no maxmemory.
func (t *tester) checkStore(ctx context.Context) (string, error) {
	info := t.rdb[0].Info(ctx).Val()
	var versions []string
	for line := range strings.Lines(info) {
		if name, _, _ := strings.Cut(line, ":"); strings.HasSuffix(name, "_version") && name != "gcc_version" {
			versions = append(versions, strings.TrimSpace(line))
		}
	}
	if !strings.Contains(info, "\nmaxmemory:") {
		versions = append(versions, "INFO has no maxmemory: look whether it evicts where its settings are")
	}
	return strings.Join(versions, ", "), t.stores[0].Check(ctx)
}

// retry repeats do until it succeeds or the timeout ends: the breaker may be open for a moment, or a connection cut.
func (t *tester) retry(do func() error) error {
	for start := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if err := do(); err == nil || time.Since(start) > t.settings.timeout {
			return err
		}
	}
}

// decide returns an error if the server makes no decisions.
func (t *tester) decide(ctx context.Context) error {
	l := t.limiters(core.PerDay(1))[0]
	if err := t.retry(func() error { return l.Allow(ctx, "k").Err }); err != nil {
		return err
	}
	return l.Reset(ctx, "k")
}

// race makes more concurrent requests of clients on two stores than allowed: under each algorithm, and under all.
type race struct {
	most    int64 // of the limit
	clients int
	fault   func(*tester, context.Context) error // injected during the race, or nil
	every   time.Duration                        // interval of the faults
	pace    time.Duration                        // interval of a worker's requests
	mayFail bool                                 // decisions may fail because of the faults
}

// workers is the number of goroutines in a race.
const workers = 24

// raceResult adds up the races of a promise.
type raceResult struct {
	least                     int64 // admissions of a client
	decisions, failed, faults int64 // numbers of decisions and faults
}

func (r race) try(t *tester, ctx context.Context) (string, error) {
	var all []core.Limit
	var limits [][]core.Limit
	for _, a := range core.Algorithms() {
		all = append(all, core.Per(r.most, core.MaxWindow).Named(a.String()).Using(a))
		limits = append(limits, all[len(all)-1:])
	}
	scripts, requests := t.sent()
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
	if r.fault != nil {
		text += fmt.Sprintf("; %d times disturbed, %d of %d decisions failed", seen.faults, seen.failed, seen.decisions)
	}
	if s, b := t.sent(); r.clients > 1 && !t.isCluster && 4*(s-scripts) > 3*(b-requests) {
		text += fmt.Sprintf("; %d requests by %d scripts: they share none, as behind a proxy", b-requests, s-scripts)
	}
	return text, nil
}

// sent returns the numbers of scripts that the stores sent, and of their requests.
func (t *tester) sent() (scripts, requests uint64) {
	for _, store := range t.stores {
		stats := store.Stats()
		scripts, requests = scripts+stats.Scripts, requests+stats.BatchRequests
	}
	return scripts, requests
}

// under returns an error unless each client is admitted as often as limits allow, less the failed decisions.
func (r race) under(t *tester, ctx context.Context, limits []core.Limit, seen *raceResult) error {
	ls, admitted := t.limiters(limits...), make([]atomic.Int64, r.clients)
	var failures atomic.Int64
	var failure atomic.Pointer[error]
	perWorker := (int(r.most)/20 + 1) * r.clients
	var group sync.WaitGroup
	for w := range workers {
		group.Go(func() {
			for i := range perWorker {
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
	faults, err := r.breakLinks(t, ctx, &group)
	if err != nil {
		return errSkipped{fmt.Errorf("the server forbids it: %w", err)}
	}
	failed, decisions := failures.Load(), int64(workers*perWorker)
	for client := range admitted {
		n := admitted[client].Load()
		if n > r.most || n+failed < r.most || failed > 0 && !r.mayFail {
			return fmt.Errorf("%v: a client was admitted %d times, and %d of %d decisions failed, the last with: %w",
				limits, n, failed, decisions, *cmp.Or(failure.Load(), new(errors.New("none"))))
		}
		seen.least = min(seen.least, n)
		if err := t.retry(func() error { return ls[0].Reset(ctx, strconv.Itoa(client)) }); err != nil {
			return err
		}
	}
	if failed > decisions/2 {
		return errSkipped{
			fmt.Errorf("%d of %d decisions failed, the last with: %w", failed, decisions, *failure.Load()),
		}
	}
	seen.decisions, seen.failed, seen.faults = seen.decisions+decisions, seen.failed+failed, seen.faults+faults
	return nil
}

// breakLinks injects faults until all goroutines of the group have ended, and returns their number.
func (r race) breakLinks(t *tester, ctx context.Context, group *sync.WaitGroup) (times int64, err error) {
	done := make(chan struct{})
	go func() { group.Wait(); close(done) }()
	tick := time.Tick(max(r.every, 1))
	for r.fault != nil && err == nil {
		select {
		case <-tick:
			times++
			err = r.fault(t, ctx)
			continue
		case <-done:
		}
		break
	}
	<-done
	return times, err
}

// expires tests that a refused client is admitted after its RetryAfter, and that its key has a TTL.
func (t *tester) expires(ctx context.Context) (string, error) {
	ls := t.limiters(core.Per(5, time.Second))
	first := ls[0].AllowN(ctx, "k", 5)
	refused := ls[1].Allow(ctx, "k")
	ttl := t.rdb[0].PTTL(ctx, t.settings.prefix+":{"+ls[0].Name()+"//k}:l1s").Val()
	time.Sleep(refused.RetryAfter)
	again := ls[1].Allow(ctx, "k")
	if err := errors.Join(first.Err, refused.Err, again.Err); err != nil {
		return "", err
	}
	slow := refused.At.Sub(first.At) >= time.Second // the refusal may have expired
	if !slow && (refused.Allowed || !again.Allowed) || ttl == -1 || ttl > 3*time.Second {
		return "", fmt.Errorf("%+v, then %+v, then %+v; the TTL was %v", first, refused, again, ttl)
	}
	return fmt.Sprintf("after %v", refused.RetryAfter.Round(time.Millisecond)), ls[0].Reset(ctx, "k")
}

// verbs tests a Return, a Charge and a Reset under each algorithm.
func (t *tester) verbs(ctx context.Context) (string, error) {
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

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
// the promise is broken, or, if it has errUntried, that this could not be tried.
var promises = []struct {
	text string
	try  func(*trials, context.Context) (seen string, err error)
}{
	{"the server is fit for counting", (*trials).fit},
	{"two processes: exact for one client", race{most: 600, clients: 1}.try},
	{"two processes: exact for each of 64", race{most: 5, clients: 64}.try},
	{"exact while scripts are flushed", race{most: 600, clients: 1, disturb: (*trials).flush}.try},
	{"refused: let in when it was told", (*trials).expires},
	{"charges, returns and resets count", (*trials).verbs},
	{"no more while connections are cut", race{most: 600, clients: 1, disturb: (*trials).cut, mayFail: true}.try},
}

var errUntried = errors.New("the server does not let it be tried")

// kept is a promise and what became of it.
type kept struct {
	Promise string `json:"promise"`
	Verdict string `json:"verdict"` // ok, WRONG or untried
	Seen    string `json:"seen"`
}

// thoroughly tries all promises on the server of the flags, or on its cluster, and tells of each in a line.
func thoroughly(ctx context.Context, s *settings, sys system, configTimeout time.Duration) error {
	t, err := newTrials(ctx, s, configTimeout)
	if err != nil {
		return &usageError{err}
	}
	defer t.close()
	var told []kept
	wrong := 0
	for _, p := range promises {
		k := kept{p.text, "ok", ""}
		if k.Seen, err = p.try(t, ctx); errors.Is(err, errUntried) {
			k.Verdict, k.Seen = "untried", err.Error()
		} else if err != nil {
			k.Verdict, k.Seen = "WRONG", err.Error()
			wrong++
		}
		k.Seen = strings.ReplaceAll(withoutPassword(k.Seen), "\n", "; ")
		told = append(told, k)
		if !s.json {
			if err := write(sys.stdout, fmt.Sprintf("%-7s  %-35s  %s\n", k.Verdict, k.Promise, k.Seen)); err != nil {
				return err
			}
		}
	}
	err = nil
	if s.json {
		err = writeJSON(sys, map[string]any{"ok": wrong == 0, "promises": told})
	}
	if wrong > 0 {
		err = errors.Join(err, fmt.Errorf("sash: %d of %d promises do not hold on this server", wrong, len(promises)))
	}
	return err
}

// trials have two stores with clients of their own, as two processes have.
type trials struct {
	settings *settings
	rdb      [2]redis.UniversalClient
	stores   [2]*redisstore.Store

	mu    sync.Mutex // guards conns
	conns []net.Conn // that have been opened since the last cut
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
			if err == nil {
				t.mu.Lock()
				defer t.mu.Unlock()
				t.conns = append(t.conns, conn)
			}
			return conn, err
		}
		single := redis.NewClient(o)
		t.rdb[i] = single
		if strings.Contains(single.Info(ctx, "cluster").Val(), "cluster_enabled:1") {
			_ = single.Close()
			t.rdb[i] = redis.NewClusterClient(&redis.ClusterOptions{
				Addrs: []string{o.Addr}, Dialer: o.Dialer, TLSConfig: o.TLSConfig,
				Username: o.Username, Password: o.Password, Protocol: o.Protocol,
			})
		}
		t.stores[i] = redisstore.New(t.rdb[i], redisstore.WithPrefix(s.prefix))
	}
	// Check compares the time of a round trip with the timeouts of the limiters on the store.
	_, err := core.New(core.Config{Store: t.stores[0], Limits: []core.Limit{core.PerDay(1)}, Timeout: configTimeout})
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

// cut closes the connections of both stores.
func (t *trials) cut(context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, conn := range t.conns {
		_ = conn.Close()
	}
	t.conns = nil
	return nil
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

// race has two stores decide about clients at once, more often than is allowed: under each algorithm, and under all.
type race struct {
	most    int64 // of the limit
	clients int
	disturb func(*trials, context.Context) error // what is done all the while, or nil
	mayFail bool                                 // whether decisions may fail of that
}

func (r race) try(t *trials, ctx context.Context) (seen string, err error) {
	var limits []core.Limit
	for _, a := range core.Algorithms() {
		limits = append(limits, core.Per(r.most, core.MaxWindow).Named(a.String()).Using(a))
	}
	for i := range limits {
		if _, err := r.under(t, ctx, limits[i]); err != nil {
			return "", err
		}
	}
	return r.under(t, ctx, limits...)
}

// under returns an error unless each client is admitted as often as limits allow, less the decisions that failed.
func (r race) under(t *trials, ctx context.Context, limits ...core.Limit) (string, error) {
	ls, admitted := t.limiters(limits...), make([]atomic.Int64, r.clients)
	var failures atomic.Int64
	var failure atomic.Pointer[error]
	ask := func(store, client int) (decided bool) {
		d := ls[store].Allow(ctx, strconv.Itoa(client))
		if d.Err != nil {
			failures.Add(1)
			failure.Store(&d.Err)
		} else if d.Allowed {
			admitted[client].Add(1)
		}
		return d.Err == nil
	}
	var workers sync.WaitGroup
	for w := range 24 {
		workers.Go(func() {
			for i := range (int(r.most)/10 + 1) * r.clients {
				ask(w%2, (i+w)%r.clients)
			}
		})
	}
	done := make(chan struct{})
	go func() { workers.Wait(); close(done) }()
	disturbed := 0
	for tick, going := time.Tick(2*time.Millisecond), r.disturb != nil; going; disturbed++ {
		if err := r.disturb(t, ctx); err != nil {
			workers.Wait()
			return "", fmt.Errorf("%w: %w", errUntried, err)
		}
		select {
		case <-tick:
		case <-done:
			going = false
		}
	}
	<-done
	for i := range ls { // the breaker may be open for a moment
		for until := time.Now().Add(t.settings.timeout); !ask(i, 0) && time.Now().Before(until); {
			time.Sleep(10 * time.Millisecond)
		}
	}
	for client := range admitted {
		n, failed := admitted[client].Load(), failures.Load()
		if n > r.most || n+failed < r.most || failed > 0 && !r.mayFail {
			return "", fmt.Errorf("%v: a client was admitted %d times, and %d decisions failed, the last with: %w",
				limits, n, failed, *cmp.Or(failure.Load(), new(errors.New("none"))))
		}
		if err := ls[0].Reset(ctx, strconv.Itoa(client)); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%d admitted; %d times disturbed, %d decisions failed", r.most, disturbed, failures.Load()), nil
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

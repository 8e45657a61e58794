package core_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
)

// everyPolicy is one of each kind; the fallback, too, must not be asked.
func everyPolicy(second core.Store) map[string]core.Policy {
	return map[string]core.Policy{
		"open": core.FailOpen, "closed": core.FailClosed, "fallback": core.Fallback(second, 1),
	}
}

// TestInvalidRequests: an invalid request, and a caller that has left, is refused whatever the policy, with its own
// error and no numbers, and no store is asked.
func TestInvalidRequests(t *testing.T) {
	store, second := &fake{}, &fake{}
	for name, policy := range everyPolicy(second) {
		l := limiter(t, core.Config{Store: store, OnStoreError: policy})
		for i, c := range []struct {
			ctx  context.Context
			r    core.Request
			want error
		}{
			{ctx, core.Request{Cost: 1}, core.ErrInvalid},
			{ctx, core.Request{Key: "k", Cost: -1}, core.ErrInvalid},
			{ctx, core.Request{Key: "k", Cost: -1, Peek: true}, core.ErrInvalid},
			{ended, core.Request{Key: "k", Cost: 1}, context.Canceled},
			{ended, core.Request{Key: "k"}, context.Canceled},
			{within(-1), core.Request{Key: "k", Cost: 1, Peek: true}, context.DeadlineExceeded},
		} {
			d := l.Decide(c.ctx, c.r)
			if d != (core.Decision{Err: d.Err}) {
				t.Errorf("%s, %d: numbers that nobody counted: %+v", name, i, d)
			}
			all := []error{d.Err}
			if c.r.Cost >= 0 { // the others have none
				_, err := l.Usage(c.ctx, c.r.Key)
				all = append(all, err, l.Reset(c.ctx, c.r.Key))
			}
			for _, err := range all {
				exact := c.want == core.ErrInvalid || err == c.want
				if !errors.Is(err, c.want) || errors.Is(err, core.ErrStore) || !exact {
					t.Errorf("%s, %d: %v, want the error %v", name, i, err, c.want)
				}
			}
		}
	}
	if n := len(store.calls) + len(second.calls); n > 0 {
		t.Errorf("%d calls reached a store", n)
	}
}

// TestContextEndsDuringDecision: the caller leaves while the store is asked. The
// store's error says nothing about the store then, so no policy decides. A
// decision that the store returned even so is valid, but for an Err in it, and
// counted where the store does not say where it comes from.
func TestContextEndsDuringDecision(t *testing.T) {
	second := &fake{answer: answers(core.Decision{Allowed: true})}
	counted := core.Decision{Allowed: true, Limit: core.PerMinute(3), Remaining: 7, ResetAfter: 8, At: time.Unix(9, 0)}
	sloppy := counted
	sloppy.Err, counted.Source = errDown, core.SourceCounted
	for name, policy := range everyPolicy(second) {
		for err, want := range map[error]core.Decision{errDown: {Err: context.Canceled}, nil: counted} {
			own, cancel := context.WithCancel(ctx)
			store := &fake{answer: func(context.Context) (core.Decision, error) { cancel(); return sloppy, err }}
			if d := limiter(t, core.Config{Store: store, OnStoreError: policy}).Allow(own, "k"); d != want {
				t.Errorf("%s: %+v, want %+v", name, d, want)
			}
		}
	}
	if len(second.calls) > 0 {
		t.Error("the fallback was asked for a caller who had left")
	}

	// The caller leaves while the fallback is asked.
	own, cancel := context.WithCancel(ctx)
	second.answer = func(context.Context) (core.Decision, error) { cancel(); return core.Decision{}, errDown }
	l := limiter(t, core.Config{Store: &fake{answer: fails(errDown)}, OnStoreError: core.Fallback(second, 1)})
	if d := l.Allow(own, "k"); d != (core.Decision{Err: context.Canceled}) {
		t.Errorf("during the fallback: %+v", d)
	}
}

// TestRuleOfARule: a rule of a rule is the rule of that name of the limiter.
func TestRuleOfARule(t *testing.T) {
	login := core.Must(limiter(t, core.Config{Name: "api"}).Rule("login", core.PerHour(2)))
	login.Allow(ctx, "k")
	again := core.Must(core.Must(login.Rule("other", core.PerHour(2))).Rule("login", core.PerHour(2)))
	if d := again.Allow(ctx, "k"); d.Remaining != 0 || again.RuleName() != "login" || again.Name() != "api" {
		t.Errorf("got %+v of %v, want no units left of login", d, again)
	}
}

// TestResetErrors: both stores are reset, and each that fails is in the error.
func TestResetErrors(t *testing.T) {
	errSecond := errors.New("second down")
	for _, c := range [][2]error{{nil, nil}, {errDown, nil}, {nil, errSecond}, {errDown, errSecond}} {
		first, second := &fake{answer: fails(c[0])}, &fake{answer: fails(c[1])}
		err := limiter(t, core.Config{Store: first, OnStoreError: core.Fallback(second, 1)}).Reset(ctx, "k")
		failed := c != [2]error{}
		if errors.Is(err, errDown) != (c[0] != nil) || errors.Is(err, errSecond) != (c[1] != nil) ||
			(err != nil) != failed || errors.Is(err, core.ErrStore) != failed {
			t.Errorf("%v: %v", c, err)
		}
		if len(first.calls) != 1 || len(second.calls) != 1 {
			t.Errorf("%v: got %d and %d calls, want 1 each", c, len(first.calls), len(second.calls))
		}
	}
}

// TestObserver: an observer gets every decision, with all fields of the Event, and hears of nothing else.
func TestObserver(t *testing.T) {
	type mark struct{}
	own := context.WithValue(ctx, mark{}, "mine")
	ended, cancel := context.WithCancel(own)
	cancel()
	var events []core.Event
	observer := core.ObserverFunc(func(ctx context.Context, e core.Event) {
		if ctx.Value(mark{}) != "mine" {
			t.Error("not the request's context")
		}
		e.Elapsed = 0 // see TestElapsed
		events = append(events, e)
	})
	store := newRecorder(0)
	l := limiter(t, core.Config{Name: "api", Store: store, Observer: observer})
	login := core.Must(l.Rule("login", core.PerHour(9))).WithPolicy(core.FailClosed)
	for i, c := range []struct {
		ctx     context.Context
		limiter *core.Limiter
		r       core.Request
	}{
		{own, l, core.Request{Key: "k", Cost: 1}},
		{own, l, core.Request{Key: "k", Cost: 3, Peek: true, Shadow: true}},
		{own, login, core.Request{Key: "k", Cost: 2, Label: "POST /login"}},
		{own, l, core.Request{Cost: 1}},
		{own, l, core.Request{Key: "k", Cost: -1}},
		{ended, l, core.Request{Key: "k", Cost: 1}},
		{own, l, core.Request{Key: "k", Cost: 1}}, // the store is down
		{own, login, core.Request{Key: "k", Cost: 1}},
	} {
		store.down.Store(i >= 6)
		d := c.limiter.Decide(c.ctx, c.r)
		if _, err := l.Usage(own, "k"); err != nil != store.down.Load() {
			t.Error(err)
		}
		want := core.Event{
			Name: "api", Rule: c.limiter.RuleName(), Label: c.r.Label, Key: c.r.Key, Cost: c.r.Cost, Peek: c.r.Peek,
			Decision: d, Shadow: c.r.Shadow,
		}
		if len(events) != i+1 || events[i] != want {
			t.Fatalf("event %d: %+v, want %+v", i, events[i:], want)
		}
	}
}

// TestElapsed: an event says how long the stores have kept the request, the fallback
// included.
func TestElapsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var elapsed time.Duration
		observer := core.ObserverFunc(func(_ context.Context, e core.Event) { elapsed = e.Elapsed })
		slow := &fake{answer: waits(30*time.Millisecond, core.Decision{Allowed: true})}
		l := limiter(t, core.Config{Store: slow, Observer: observer})
		if l.Allow(ctx, "k"); elapsed != 30*time.Millisecond {
			t.Errorf("a store that takes 30ms: %v", elapsed)
		}
		fallback := core.Fallback(&fake{answer: waits(20*time.Millisecond, core.Decision{Allowed: true})}, 1)
		l = limiter(t, core.Config{Store: &fake{answer: hangs}, OnStoreError: fallback, Observer: observer})
		if l.Allow(ctx, "k"); elapsed != 70*time.Millisecond {
			t.Errorf("a store that hangs and a fallback that takes 20ms: %v, want 70ms", elapsed)
		}
		if l.Allow(ctx, ""); elapsed != 0 {
			t.Errorf("a request about which no store is asked: %v", elapsed)
		}
	})
}

// TestElapsedInMemory: of the decisions of a store that never waits, a part is measured.
func TestElapsedInMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		elapsed := map[time.Duration]int{}
		observer := core.ObserverFunc(func(_ context.Context, e core.Event) { elapsed[e.Elapsed]++ })
		clock := func() time.Time { time.Sleep(time.Millisecond); return time.Now() }
		l := limiter(t, core.Config{Store: memstore.New(memstore.WithClock(clock)), Observer: observer})
		for range 2000 {
			l.Allow(ctx, "k")
		}
		if len(elapsed) != 2 || elapsed[time.Millisecond] == 0 || elapsed[0] == 0 {
			t.Errorf("the times are %v, want 1ms of some decisions and none of the others", elapsed)
		}
	})
}

package keyfuncs_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/keyfuncs"
)

// verifier knows the key "right" and counts what it is asked.
type verifier struct {
	asked, underway, most atomic.Int64
	before                func(ctx context.Context, key string) error // nil: nothing
}

func (v *verifier) verify(ctx context.Context, key string) (string, error) {
	v.asked.Add(1)
	now := v.underway.Add(1)
	defer v.underway.Add(-1)
	for most := v.most.Load(); now > most && !v.most.CompareAndSwap(most, now); most = v.most.Load() {
	}
	if v.before != nil {
		if err := v.before(ctx, key); err != nil {
			return "", err
		}
	}
	if key == "right" {
		return "7", nil
	}
	return "", nil
}

// sleeps takes a second for each verification, or less if the context ends.
func sleeps(ctx context.Context, _ string) error {
	select {
	case <-time.After(time.Second):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func failureLimiter(n int64) *core.Limiter {
	return core.Must(core.New(core.Config{Store: memstore.New(), Limits: []core.Limit{core.PerMinute(n)}}))
}

// limited returns a key function with n failures a minute, and its option.
func limited(n int64, v *verifier) (keyfuncs.Func, keyfuncs.APIKeyOption) {
	option := keyfuncs.LimitFailures(failureLimiter(n), keyfuncs.RemoteIP)
	return keyfuncs.First(keyfuncs.APIKey("X-API-Key", v.verify, option), keyfuncs.RemoteIP), option
}

func guess(key string) *http.Request { return request("198.51.100.7:1", "X-API-Key: "+key) }

// outcome is what a guess has led to: the key, or the kind of error.
func outcome(key string, err error) string {
	refused, ok := errors.AsType[*keyfuncs.RefusedError](err)
	switch {
	case ok && refused.Decision.Err != nil:
		return "no store"
	case ok && (refused.Decision.Allowed || refused.Decision.RetryAfter <= 0 ||
		refused.Decision.RetryAfter > time.Minute):
		return fmt.Sprintf("refused with %+v", refused.Decision)
	case ok:
		return "refused"
	case err != nil:
		return err.Error()
	}
	return key
}

var right = keyfuncs.APIKeyString("7")

// Once the failures are spent, a right guess looks like a wrong one, and verify
// is not asked.
func TestLimitFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &verifier{}
		f, option := limited(2, v)
		expect := func(r *http.Request, want string) {
			t.Helper()
			if got := outcome(f(r)); got != want {
				t.Errorf("%v: %s, want %s", r.Header, got, want)
			}
		}
		for range 5 {
			expect(guess("right"), right) // charges nothing
		}
		expect(guess("a"), clientKey)
		expect(guess("right"), right)
		expect(guess("b"), clientKey)
		for range 5000 {
			expect(guess("c"), "refused")
		}
		expect(guess("right"), "refused")
		expect(request("198.51.100.7:1", "Authorization: Bearer right"), "refused")
		if n := v.asked.Load(); n != 8 {
			t.Errorf("verify was asked %d times, want 8", n)
		}
		expect(request("198.51.100.7:1"), clientKey)
		expect(request("203.0.113.9:1", "X-API-Key: right"), right)
		expect(request("203.0.113.9:1", "X-API-Key: d"), "ip:203.0.113.9")

		time.Sleep(time.Minute)
		expect(guess("right"), right)
		expect(guess("e"), clientKey)
		if n := keyfuncs.AddressesOf(option); n != 0 {
			t.Errorf("%d addresses are remembered", n)
		}
	})
}

func TestLimitFailuresChargesEachKey(t *testing.T) {
	v := &verifier{}
	f, _ := limited(4, v)
	if got := outcome(f(request("198.51.100.7:1", "X-API-Key: a", "Authorization: Bearer b"))); got != clientKey {
		t.Error(got)
	}
	if got := outcome(f(request("198.51.100.7:1", "X-API-Key: a", "Authorization: Bearer right"))); got != right {
		t.Error(got)
	}
	if got := outcome(f(guess("c"))); got != clientKey {
		t.Error(got)
	}
	if got := outcome(f(guess("right"))); got != "refused" {
		t.Errorf("after four unknown keys: %s", got)
	}
	f, _ = limited(1, v) // the first of two keys spends the failures
	if got := outcome(f(request("198.51.100.7:1", "X-API-Key: a", "Authorization: Bearer right"))); got != "refused" {
		t.Error(got)
	}
	f, _ = limited(1, v)
	if _, err := f(guess("a, right")); !errors.Is(err, keyfuncs.ErrBadRequest) {
		t.Error(err)
	}
	if got := outcome(f(guess("right"))); got != "refused" {
		t.Errorf("after a key that was refused as malformed: %s", got)
	}
}

// No number of parallel guesses makes more of them.
func TestLimitFailuresParallelGuesses(t *testing.T) {
	parallel := func(t *testing.T, v *verifier) {
		f, option := limited(5, v)
		outcomes := make([]string, 200)
		var wait sync.WaitGroup
		for i := range outcomes {
			wait.Go(func() { outcomes[i] = outcome(f(guess("wrong"))) })
		}
		wait.Wait()
		slices.Sort(outcomes)
		if v.asked.Load() != 5 || outcomes[4] != clientKey || outcomes[5] != "refused" || outcomes[199] != "refused" {
			t.Errorf("verify was asked %d times, %q", v.asked.Load(), slices.Compact(outcomes))
		}
		if n := keyfuncs.AddressesOf(option); n != 0 {
			t.Errorf("%d addresses are remembered", n)
		}
	}
	t.Run("at once", func(t *testing.T) { parallel(t, &verifier{}) })
	t.Run("slow", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { parallel(t, &verifier{before: sleeps}) })
	})
}

// Known keys that come at the same time wait for each other and are not refused,
// however few failures are left.
func TestLimitFailuresParallelKnownKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &verifier{before: sleeps}
		f, option := limited(5, v)
		start := time.Now()
		var wait sync.WaitGroup
		for i := range 200 {
			wait.Go(func() {
				if i == 40 { // one failure among them
					if got := outcome(f(guess("wrong"))); got != clientKey {
						t.Errorf("the wrong key: %s", got)
					}
					return
				}
				if got := outcome(f(guess("right"))); got != right {
					t.Error(got)
				}
			})
		}
		wait.Wait()
		if n := v.asked.Load(); n != 200 {
			t.Errorf("verify was asked %d times, want 200", n)
		}
		if n := v.most.Load(); n > 5 {
			t.Errorf("%d verifications at once, with 5 failures", n)
		}
		if d := time.Since(start); d < 40*time.Second || d > 50*time.Second {
			t.Errorf("200 verifications of a second, 4 or 5 at once, took %v", d)
		}
		if n := keyfuncs.AddressesOf(option); n != 0 {
			t.Errorf("%d addresses are remembered", n)
		}
	})
}

// A client that leaves while it waits, or while its key is verified, takes no
// place with it; a client that left after its guess was answered is charged.
func TestLimitFailuresClientLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &verifier{before: sleeps}
		f, option := limited(1, v)
		var wait sync.WaitGroup
		for i := range 10 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i+1)*50*time.Millisecond)
			defer cancel()
			wait.Go(func() {
				if _, err := f(guess("wrong").WithContext(ctx)); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("error %v", err)
				}
			})
		}
		wait.Wait()
		if got := outcome(f(guess("right"))); got != right {
			t.Errorf("after clients that left: %s", got)
		}

		ctx, cancel := context.WithCancel(t.Context())
		v.before = func(context.Context, string) error {
			cancel()
			return nil
		}
		_, _ = f(guess("wrong").WithContext(ctx))
		if got := outcome(f(guess("right"))); got != "refused" {
			t.Errorf("after a failure of a client that left: %s", got)
		}
		if n := keyfuncs.AddressesOf(option); n != 0 {
			t.Errorf("%d addresses are remembered", n)
		}
	})
}

// Neither a panic of verify nor an error is a failure, and neither keeps its
// place.
func TestLimitFailuresVerifyFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cause := errors.New("down")
		v := &verifier{before: func(ctx context.Context, key string) error {
			_ = sleeps(ctx, key)
			switch key {
			case "panic":
				panic("verify")
			case "error":
				return cause
			}
			return nil
		}}
		f, option := limited(1, v)
		var wait sync.WaitGroup
		for _, key := range []string{"panic", "error", "right", "panic", "error", "right"} {
			wait.Go(func() {
				defer func() {
					if problem := recover(); (problem != nil) != (key == "panic") {
						t.Errorf("%s: panic %v", key, problem)
					}
				}()
				got, err := f(guess(key))
				if key == "error" != errors.Is(err, cause) || key == "right" != (got == right) {
					t.Errorf("%s: %s, %v", key, got, err)
				}
			})
		}
		wait.Wait()
		if n := keyfuncs.AddressesOf(option); n != 0 || v.asked.Load() != 6 {
			t.Errorf("%d addresses are remembered, verify was asked %d times", n, v.asked.Load())
		}
	})
}

// An observer of the limiter that panics leaves no reservation behind.
func TestLimitFailuresObserverPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		panics := true
		limiter := core.Must(core.New(core.Config{
			Store:  memstore.New(),
			Limits: []core.Limit{core.PerMinute(1)},
			Observer: core.ObserverFunc(func(context.Context, core.Event) {
				if panics {
					panic("observer")
				}
			}),
		}))
		option := keyfuncs.LimitFailures(limiter, keyfuncs.RemoteIP)
		f := keyfuncs.APIKey("X-API-Key", new(verifier).verify, option)
		func() {
			defer func() { _ = recover() }()
			_, _ = f(guess("right"))
			t.Error("no panic")
		}()
		panics = false
		if got := outcome(f(guess("right"))); got != right || keyfuncs.AddressesOf(option) != 0 {
			t.Errorf("%s, %d addresses are remembered", got, keyfuncs.AddressesOf(option))
		}
	})
}

// Without an address there would be no limit.
func TestLimitFailuresNeedsAnAddress(t *testing.T) {
	v := &verifier{}
	for name, address := range map[string]keyfuncs.Func{"no key": noKey, "empty": empty} {
		f := keyfuncs.APIKey("X-API-Key", v.verify, keyfuncs.LimitFailures(failureLimiter(5), address))
		if err := wantBadRequest(t, f, guess("right")); !strings.Contains(err.Error(), "address") {
			t.Errorf("%s: %v", name, err)
		}
		wantNoKey(t, f, request(""))
	}
	f := keyfuncs.APIKey("X-API-Key", v.verify, keyfuncs.LimitFailures(failureLimiter(5), failing))
	if _, err := f(guess("right")); !errors.Is(err, errLookup) {
		t.Errorf("error %v", err)
	}
	if n := v.asked.Load(); n != 0 {
		t.Errorf("verify was asked %d times", n)
	}
}

// brokenStore cannot be asked.
type brokenStore struct{}

func (brokenStore) Bind(core.Rule) (core.Counts, error) { return brokenStore{}, nil }
func (brokenStore) Take(context.Context, core.Ask) (core.Decision, error) {
	return core.Decision{}, errors.New("down")
}
func (brokenStore) Usage(context.Context, string) ([]core.Use, error) { return nil, errors.New("down") }
func (brokenStore) Return(context.Context, core.Back) (int64, error)  { return 0, errors.New("down") }
func (brokenStore) Reset(context.Context, string) error               { return nil }

func TestLimitFailuresWithoutStore(t *testing.T) {
	for name, test := range map[string]struct {
		policy core.FailurePolicy
		want   []string // right, wrong
	}{
		"open":     {core.FailOpen, []string{right, clientKey}},
		"closed":   {core.FailClosed, []string{"no store", "no store"}},
		"fallback": {core.Fallback(memstore.New()), []string{right, clientKey}},
	} {
		v := &verifier{}
		limiter := core.Must(core.New(core.Config{
			Store: brokenStore{}, Limits: []core.Limit{core.PerMinute(1)}, OnStoreError: test.policy,
		}))
		option := keyfuncs.LimitFailures(limiter, keyfuncs.RemoteIP)
		f := keyfuncs.First(keyfuncs.APIKey("X-API-Key", v.verify, option), keyfuncs.RemoteIP)
		got := []string{outcome(f(guess("right"))), outcome(f(guess("wrong")))}
		if !slices.Equal(got, test.want) || test.policy == core.FailurePolicy(core.FailClosed) && v.asked.Load() > 0 {
			t.Errorf("%s: %q, want %q; verify was asked %d times", name, got, test.want, v.asked.Load())
		}
	}
}

func TestRefusedErrorText(t *testing.T) {
	five := core.PerMinute(5).Named("1m0s")
	for want, d := range map[string]core.Decision{
		"limit 5/1m is reached": {Limit: five, Err: core.ErrStore}, // by a fallback
		"5/1m is reached":       {Limit: five},
		"could not be asked":    {Err: core.ErrStore},
	} {
		if text := (&keyfuncs.RefusedError{Decision: d}).Error(); !strings.Contains(text, want) {
			t.Errorf("%s; want %s", text, want)
		}
	}
}

func TestLimitFailuresPanicsOnMisuse(t *testing.T) {
	limiter := failureLimiter(1)
	option := keyfuncs.LimitFailures(limiter, keyfuncs.RemoteIP)
	mustPanic(t, func() { keyfuncs.LimitFailures(nil, keyfuncs.RemoteIP) }, "limiter is nil", "core.New")
	mustPanic(t, func() { keyfuncs.LimitFailures(new(core.Limiter), keyfuncs.RemoteIP) }, "has no limits", "core.New")
	mustPanic(t, func() { keyfuncs.LimitFailures(limiter, nil) }, "address", "RemoteIP")
	mustPanic(t, func() { keyfuncs.APIKey("X-API-Key", known, option, option) }, "twice")
}

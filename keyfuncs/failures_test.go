package keyfuncs_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/core/storetest"
	"github.com/sashlimit/sash/keyfuncs"
)

// verifier knows the key "right" and counts what it is asked.
type verifier struct {
	asked  atomic.Int64
	before func(ctx context.Context, key string) error // nil: nothing
}

func (v *verifier) verify(ctx context.Context, key string) (string, error) {
	v.asked.Add(1)
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

func failureLimiter(n int64) *core.Limiter {
	return core.Must(core.New(core.Config{Store: memstore.New(), Limits: []core.Limit{core.PerMinute(n)}}))
}

// limited returns a key function with n failures a minute.
func limited(n int64, v *verifier) keyfuncs.Func {
	option := keyfuncs.LimitFailures(failureLimiter(n), keyfuncs.RemoteIP)
	return keyfuncs.First(keyfuncs.APIKey("X-API-Key", v.verify, option), keyfuncs.RemoteIP)
}

func guess(key string) *http.Request { return request("198.51.100.7:1", "X-API-Key: "+key) }

// malformed is the outcome of a guess that matches ErrBadRequest.
const malformed = "malformed"

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
	case errors.Is(err, keyfuncs.ErrBadRequest):
		return malformed
	case err != nil:
		return err.Error()
	}
	return key
}

var right = keyfuncs.APIKeyKey("7")

// Once the failures are spent, a right guess looks like a wrong one, and verify
// is not asked.
func TestLimitFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &verifier{}
		f := limited(2, v)
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
	})
}

// TestLimitFailuresChargesEachKey: each unknown key of a request counts, also one that is refused as malformed. Where
// the first of two keys spends the failures, the second is not asked about.
func TestLimitFailuresChargesEachKey(t *testing.T) {
	two := func(header, bearer string) *http.Request {
		return request("198.51.100.7:1", "X-API-Key: "+header, "Authorization: Bearer "+bearer)
	}
	for _, c := range []struct {
		most     int64
		requests []*http.Request
		want     []string
	}{
		{4, []*http.Request{two("a", "b"), two("a", "right"), guess("c"), guess("right")},
			[]string{clientKey, right, clientKey, "refused"}},
		{1, []*http.Request{two("a", "right")}, []string{"refused"}},
		{1, []*http.Request{guess("a, right"), guess("right")}, []string{malformed, "refused"}},
	} {
		f := limited(c.most, &verifier{})
		for i, r := range c.requests {
			if got := outcome(f(r)); got != c.want[i] {
				t.Errorf("%d failures, %v: got %s, want %s", c.most, r.Header, got, c.want[i])
			}
		}
	}
}

// TestLimitFailuresInParallel: of guesses at once as many are verified as may fail. Known keys wait for their turn, and
// none is refused for being many, however slow verify is.
func TestLimitFailuresInParallel(t *testing.T) {
	for key, want := range map[string]map[string]int{"wrong": {clientKey: 10, "refused": 190}, "right": {right: 200}} {
		synctest.Test(t, func(t *testing.T) {
			slow := func(context.Context, string) error { time.Sleep(2 * time.Second); return nil }
			v, got := &verifier{before: slow}, make(chan string)
			f := limited(10, v)
			for range 200 {
				go func() { got <- outcome(f(guess(key))) }()
			}
			outcomes := map[string]int{}
			for range 200 {
				outcomes[<-got]++
			}
			if !maps.Equal(outcomes, want) || v.asked.Load() != int64(want[right]+want[clientKey]) {
				t.Errorf("%s: got %v and %d verified, want %v", key, outcomes, v.asked.Load(), want)
			}
		})
	}
}

// TestLimitFailuresGivesBack: no known key counts, no error and no panic of verify, even if the client has left.
func TestLimitFailuresGivesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, leave := context.WithCancel(t.Context())
		v := &verifier{before: func(_ context.Context, key string) error {
			leave()
			switch key {
			case "panic":
				panic("verify")
			case "error":
				return errLookup
			}
			return nil
		}}
		f := limited(1, v)
		for _, key := range []string{"panic", "error", "right", "wrong"} {
			func() {
				defer func() { _ = recover() }()
				ctx, leave = context.WithCancel(t.Context())
				_, _ = f(guess(key).WithContext(ctx))
			}()
			want := map[bool]string{false: right, true: "refused"}[key == "wrong"]
			if got := outcome(f(guess("right"))); got != want {
				t.Errorf("after %s: got %s, want %s", key, got, want)
			}
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

// TestLimitFailuresWithoutStore: the store can be read and not written, as a Redis that is full. So the attempt itself
// is counted before the verifier is asked, and the policy decides where that fails.
func TestLimitFailuresWithoutStore(t *testing.T) {
	full := storetest.Wrap(memstore.New(), func(ctx context.Context, call storetest.Call) (core.Decision, error) {
		if call.Verb == "Take" && !call.Ask.Peek && call.Ask.Cost > 0 {
			return core.Decision{}, errors.New("OOM")
		}
		return call.Next(ctx)
	})
	for name, test := range map[string]struct {
		policy core.Policy
		want   []string // right, wrong
		asked  int64
	}{
		"open":   {core.FailOpen, []string{right, clientKey}, 2},
		"closed": {core.FailClosed, []string{"no store", "no store"}, 0},
	} {
		v := &verifier{}
		limiter := core.Must(core.New(core.Config{
			Store: full, Limits: []core.Limit{core.PerMinute(1)}, OnStoreError: test.policy,
		}))
		option := keyfuncs.LimitFailures(limiter, keyfuncs.RemoteIP)
		f := keyfuncs.First(keyfuncs.APIKey("X-API-Key", v.verify, option), keyfuncs.RemoteIP)
		got := []string{outcome(f(guess("right"))), outcome(f(guess("wrong")))}
		if !slices.Equal(got, test.want) || v.asked.Load() != test.asked {
			t.Errorf("%s: %q, want %q; verify was asked %d times", name, got, test.want, v.asked.Load())
		}
	}
}

func TestRefusedErrorText(t *testing.T) {
	five := core.PerMinute(5).Named("1m0s")
	for want, d := range map[string]core.Decision{
		"limit 5/1m is reached": {Limit: five, Err: core.ErrStore}, // by a fallback
		"5/1m is reached":       {Limit: five},
		"store failed":          {Err: core.ErrStore},
	} {
		if text := (&keyfuncs.RefusedError{Decision: d}).Error(); !strings.Contains(text, want) {
			t.Errorf("%s; want %s", text, want)
		}
	}
}

package core_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/sashlimit/sash/core"
)

// TestLimiterWithoutLimits: a limiter without limits makes rules of its name, store and policy. It binds no store, and
// it decides nothing, also under a policy that admits.
func TestLimiterWithoutLimits(t *testing.T) {
	store, second := &fake{}, &fake{}
	api := core.Must(core.New(core.Config{Name: "api", Store: store, OnStoreError: core.Fallback(second, 2)}))
	open := api.WithPolicy(nil)
	all, _ := core.DecideAll(ctx, pair(open, "a"))
	_, waited := open.Wait(ctx, "a")
	_, used := open.Usage(ctx, "a")
	for name, err := range map[string]error{
		"Allow":     open.Allow(ctx, "a").Err,
		"DecideAll": all.Err,
		"Wait":      waited,
		"Usage":     used,
		"Reset":     open.Reset(ctx, "a"),
		"Limits":    open.Decide(ctx, core.Request{Key: "a", Limits: []core.Limit{core.PerMinute(1)}}).Err,
	} {
		const want = `limiter "api" has no limits: ask one of its rules, which Limiter.Rule makes`
		if !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got the error %v, want an ErrInvalid with %q", name, err, want)
		}
	}
	if d := open.Allow(ctx, "a"); d.Allowed {
		t.Errorf("got %+v, want a refusal", d)
	}
	const none = `limiter "api": no limits: give at least`
	if _, err := api.WithLimits(); err == nil || !strings.Contains(err.Error(), none) {
		t.Errorf("WithLimits(): got the error %v", err)
	}
	login := core.Must(api.Rule("login", core.PerMinute(1)))
	if d := login.Allow(ctx, "a"); !d.Allowed || login.String() != `limiter "api", rule "login"` {
		t.Errorf("%v: got %+v, want an admission", login, d)
	}
	if d := core.Must(api.WithLimits(core.PerMinute(1))).Allow(ctx, "a"); !d.Allowed {
		t.Errorf("WithLimits: got %+v, want an admission", d)
	}
	for _, s := range []*fake{store, second} {
		if len(s.bound) != 2 || s.bound[0].Rule != "login" || s.bound[1].Rule != "" {
			t.Errorf("got the bindings %v, want those of the rule login and of WithLimits", s.bound)
		}
	}
}

// TestSameLimits: what asks for the same limits again gets the same limiter, on one binding.
func TestSameLimits(t *testing.T) {
	store := &fake{}
	api := core.Must(core.New(core.Config{Store: store}))
	plan := func(n int64) *core.Limiter { return core.Must(api.WithLimits(core.PerMinute(n), core.PerDay(n))) }
	rule := func(n int64) *core.Limiter { return core.Must(api.Rule("login", core.PerMinute(n))) }
	first, again, firstRule, ruleAgain := plan(1), plan(1), rule(1), rule(1)
	if first != again || firstRule != ruleAgain || first == plan(2) || firstRule == rule(2) {
		t.Error("got another limiter for the same limits, or one for others")
	}
	if _, err := api.WithLimits(core.PerMinute(1), core.PerDay(0)); err == nil || len(store.bound) != 4 {
		t.Errorf("got %d bindings, want 4, and the error %v", len(store.bound), err)
	}
	for n := range int64(5000) {
		if l := plan(n + 1); l.Limits()[0].Requests != n+1 {
			t.Fatalf("%d: got %v", n+1, l.Limits())
		}
	}
}

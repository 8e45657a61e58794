package core_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/sashlimit/sash/core"
)

// TestRulesAlone: a limiter without limits makes rules, with its name, store and policy. No store is bound for it, and
// it decides nothing, also under a policy that admits.
func TestRulesAlone(t *testing.T) {
	store, second := &fake{}, &fake{}
	api := core.Must(core.New(core.Config{Name: "api", Store: store, OnStoreError: core.Fallback(second, 2)}))
	open := api.WithPolicy(nil)
	ctx := t.Context()
	for name, err := range map[string]error{
		"Allow":     open.Allow(ctx, "a").Err,
		"DecideAll": decideAll(ctx, open),
		"Wait":      errorOf(open.Wait(ctx, "a")),
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
	if uses, err := api.Usage(ctx, "a"); len(uses) != 0 || err != nil || len(api.Limits()) != 0 {
		t.Errorf("Usage: %v, %v, of the limits %v; want none", uses, err, api.Limits())
	}
	if err := api.Reset(ctx, "a"); err != nil {
		t.Errorf("Reset: %v", err)
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

func decideAll(ctx context.Context, l *core.Limiter) error {
	d, _ := core.DecideAll(ctx, core.Pair{Limiter: l, Request: core.Request{Key: "a", Cost: 1}})
	return d.Err
}

func errorOf(_ core.Decision, err error) error { return err }

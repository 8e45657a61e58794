package storetest_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/core/storetest"
)

// TestExample: the suite passes the store of the example, around which a function does nothing.
func TestExample(t *testing.T) {
	storetest.Run(t, func(*testing.T) core.Store {
		return storetest.Wrap(newNaive(), func(ctx context.Context, call storetest.Call) (core.Decision, error) {
			return call.Next(ctx)
		})
	})
}

// TestWrap: the function gets every call, with the rule and the client, and its answer counts.
func TestWrap(t *testing.T) {
	errDown := errors.New("connection refused")
	var verbs []string
	var fails error
	store := storetest.Wrap(memstore.New(), func(_ context.Context, call storetest.Call) (core.Decision, error) {
		if call.Key != "k" || call.Rule.Name != "api" {
			t.Errorf("got a call for %q by the rule of %q, want k and api", call.Key, call.Rule.Name)
		}
		if call.Verb == "Take" && call.Ask.Cost != 3 || call.Verb == "Return" && call.Back.Units != 3 {
			t.Errorf("%s: got the cost %d and %d units back, want 3", call.Verb, call.Ask.Cost, call.Back.Units)
		}
		verbs = append(verbs, call.Verb)
		return core.Decision{Allowed: true, Remaining: 7}, fails
	})
	l := core.Must(core.New(core.Config{
		Name: "api", Store: store, Limits: []core.Limit{core.PerHour(10)},
		Observer: core.Silent, OnStoreError: core.FailClosed,
	}))
	three := core.Request{Key: "k", Cost: 3}
	reserved := []*core.Reservation{l.Reserve(t.Context(), three), l.Reserve(t.Context(), three)}
	for i, err := range []error{nil, errDown} {
		fails = err
		d := l.AllowN(t.Context(), "k", 3)
		units, returned := reserved[i].Return(t.Context(), 3)
		uses, used := l.Usage(t.Context(), "k")
		if fails == nil && (!d.Allowed || d.Remaining != 7 || units != 3 || len(uses) != 1 || uses[0].Used != 0) {
			t.Errorf("got %+v, %d units back and %v, want 7 remaining, 3 and nothing used", d, units, uses)
		}
		for _, err := range []error{d.Err, returned, used, l.Reset(t.Context(), "k")} {
			if !errors.Is(err, fails) {
				t.Errorf("got the error %v, want %v", err, fails)
			}
		}
	}
	want := []string{"Take", "Take", "Take", "Return", "Usage", "Reset", "Take", "Return", "Usage", "Reset"}
	if !slices.Equal(verbs, want) {
		t.Errorf("got the calls %q, want %q", verbs, want)
	}
}

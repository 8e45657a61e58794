package core_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/internal/errs"
)

// TestFailures: a limiter knows since when its store fails, with what, and how many requests
// the policy has decided, and what to do. A run of failures ends with a minute without one; callers that left
// are none.
func TestFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &fake{}
		l := limiter(t, core.Config{Store: store, Observer: core.Silent})
		login := l.WithPolicy(core.Fallback(&fake{}))
		check := func(when string, decided uint64, since, latest time.Time, err error, failing bool) {
			t.Helper()
			got, want := l.Failures(), core.Failures{Decided: decided, Since: since, Latest: latest, Err: err}
			if err != nil {
				want.Remedy = "mend what is " + err.Error()
			}
			if got != want || got.Failing() != failing || login.Failures() != got {
				t.Errorf("%s: got %+v, failing: %v; want %+v, failing: %v", when, got, got.Failing(), want, failing)
			}
		}
		l.Allow(ctx, "k")
		check("at first", 0, time.Time{}, time.Time{}, nil, false)
		began := time.Now()
		broken := func(word string) error { return errs.WithRemedy("mend what is "+word, errors.New(word)) }
		full, down := broken("full"), broken("down")
		store.answer = fails(full)
		l.Allow(ctx, "k")
		ended, cancel := context.WithCancel(ctx)
		cancel()
		l.Allow(ended, "k")
		check("one request", 1, began, began, full, true)
		time.Sleep(time.Minute - 1)
		store.answer = fails(down)
		login.Allow(ctx, "k")
		check("the other policy", 2, began, time.Now(), down, true)
		latest := time.Now()
		time.Sleep(time.Minute)
		check("a minute later", 2, began, latest, down, false)
		l.Allow(ctx, "k")
		check("another outage", 3, time.Now(), time.Now(), down, true)
	})
}

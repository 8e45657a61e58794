package storetest_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/storetest"
	"github.com/sashlimit/sash/keyfuncs"
	"github.com/sashlimit/sash/nethttp"
)

func ExampleFixed() {
	limiter := core.Must(core.New(core.Config{
		Name:   "api",
		Store:  storetest.Fixed(core.Decision{RetryAfter: 30 * time.Second}),
		Limits: []core.Limit{core.PerMinute(100)},
	}))
	handler := nethttp.Middleware(limiter, keyfuncs.RemoteIP)(http.NotFoundHandler())

	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	fmt.Println(w.Code, w.Header().Get("Retry-After"), w.Header().Get("X-RateLimit-Limit"))
	// Output: 429 30 100
}

var perHour = core.PerHour(1000).Named("hourly")

// fixed returns a limiter of 10 a minute and 1000 an hour whose store always answers d.
func fixed(t *testing.T, d core.Decision, policy core.Policy) *core.Limiter {
	t.Helper()
	l, err := core.New(core.Config{
		Store: storetest.Fixed(d), Limits: []core.Limit{core.PerMinute(10), perHour},
		OnStoreError: policy, Observer: core.Silent,
	})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestFixedAnswers: each kind of request gets the answer, with the fields filled in.
func TestFixedAnswers(t *testing.T) {
	d := core.Decision{Limit: core.PerHour(1000), Remaining: 3, RetryAfter: time.Minute, ResetAfter: time.Second,
		At: time.Unix(1_700_000_000, 0)}
	l := fixed(t, d, nil)
	want := d
	want.Limit, want.Source = perHour, core.SourceCounted
	for _, r := range []core.Request{{Key: "a", Cost: 1}, {Key: "b", Cost: 0}, {Key: "a", Cost: 1, Peek: true}} {
		if got := l.Decide(t.Context(), r); got != want {
			t.Errorf("%+v: %+v, want %+v", r, got, want)
		}
	}

	charged := want
	charged.Allowed, charged.RetryAfter = true, 0
	if got := l.Charge(t.Context(), "a", 5); got != charged {
		t.Errorf("a charge: %+v, want %+v", got, charged)
	}
	own := []core.Limit{core.PerMinute(1), core.PerHour(2).Named("hourly")}
	got := l.Decide(t.Context(), core.Request{Key: "a", Cost: 1, Limits: own})
	if got.Limit != own[1] || got.Remaining != 2 {
		t.Errorf("limits of the request: %v binds with %d left, want %v with 2", got.Limit, got.Remaining, own[1])
	}
	uses, err := l.Usage(t.Context(), "a")
	if err != nil || len(uses) != 2 || uses[0].Used != 0 || uses[1].Used != 997 || uses[1].ResetAfter != time.Second {
		t.Errorf("Usage: %+v, %v, want 0 of 10 and 997 of 1000 used", uses, err)
	}
	if err := l.Reset(t.Context(), "a"); err != nil {
		t.Errorf("Reset: %v", err)
	}
}

// TestFixedDefaults: without a Limit the first of the rule binds, and without At it is now.
func TestFixedDefaults(t *testing.T) {
	l := fixed(t, core.Decision{Allowed: true, Remaining: 7}, nil)
	before := time.Now().Truncate(time.Microsecond)
	d := l.Allow(t.Context(), "a")
	if !d.Allowed || d.Remaining != 7 || d.Limit != l.Limits()[0] || d.Err != nil {
		t.Errorf("%+v, want admitted by the first limit with 7 left", d)
	}
	if d.At.Before(before) || d.At.After(time.Now()) {
		t.Errorf("At is %v, want a time since %v", d.At, before)
	}
	res := l.Reserve(t.Context(), core.Request{Key: "a", Cost: 5})
	if n, err := res.Return(t.Context(), 4); n != 4 || err != nil {
		t.Errorf("Return: %d, %v, want 4", n, err)
	}
}

// TestFixedOutage: with an Err every call fails with it. The fallback may have the same answer.
func TestFixedOutage(t *testing.T) {
	for _, down := range []error{errors.New("no route to host"), core.ErrTimeout} {
		answer := core.Decision{Err: down}
		for _, policy := range []core.Policy{core.FailClosed, core.Fallback(storetest.Fixed(answer), 1)} {
			l := fixed(t, answer, policy)
			d := l.Allow(t.Context(), "a")
			_, used := l.Usage(t.Context(), "a")
			for _, err := range []error{d.Err, used, l.Reset(t.Context(), "a")} {
				if d.Allowed || !errors.Is(err, core.ErrStore) || !errors.Is(err, down) {
					t.Errorf("%v: %+v and the error %v, want %v", policy, d, err, down)
				}
			}
		}
	}
}

// TestFixedErrors: an answer that no store gives is an error of New.
func TestFixedErrors(t *testing.T) {
	for want, d := range map[string]core.Decision{
		"RetryAfter 0s: give a positive one":  {},
		"RetryAfter -1s: give a positive one": {RetryAfter: -time.Second},
		"allowed and has the RetryAfter 1s":   {Allowed: true, RetryAfter: time.Second},
		"Allowed and Err":                     {Allowed: true, Err: errors.New("down")},
		"Remaining -1":                        {Allowed: true, Remaining: -1},
		"the Remaining 11 of a limit of 10":   {Allowed: true, Remaining: 11},
		"ResetAfter -1s":                      {Allowed: true, ResetAfter: -time.Second},
		"the Source fallback: a store gives":  {Allowed: true, Source: core.SourceFallback},
		"the Limit 5/1m named other":          {Allowed: true, Limit: core.PerMinute(5).Named("other")},
	} {
		_, err := core.New(core.Config{Store: storetest.Fixed(d), Limits: []core.Limit{core.PerMinute(10)}})
		if err == nil || !strings.HasPrefix(err.Error(), "sash: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want an error with %q", d, err, want)
		}
	}
}

// TestNoTestingInPrograms: what programs import does not import package testing, and so
// not this package either.
func TestNoTestingInPrograms(t *testing.T) {
	const format = `{{range .Deps}}{{if eq . "testing"}}{{$.ImportPath}} {{end}}{{end}}`
	found := 0
	for _, module := range []string{"../..", "../../chi", "../../gin", "../../echo", "../../echo5", "../../examples"} {
		list := exec.Command("go", "list", "-f", format, "./...")
		list.Dir = module
		importing, err := list.Output()
		if err != nil {
			t.Fatal(module, err)
		}
		for _, path := range strings.Fields(string(importing)) {
			if found++; !strings.HasSuffix(path, "test") && !strings.Contains(path, "/internal/") { // as of storetest
				t.Errorf("%s imports testing", path)
			}
		}
	}
	if found == 0 {
		t.Error("no package imports testing, not even storetest")
	}
}

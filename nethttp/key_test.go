package nethttp_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/keyfuncs"
	"github.com/sashlimit/sash/nethttp"
)

// TestRefusedErrorFields: the answer to a request that the key function refuses has the fields and the
// body of that refusal, in the formats of the guard.
func TestRefusedErrorFields(t *testing.T) {
	failures := core.PerMinute(3).Named("failures")
	over := &keyfuncs.RefusedError{
		Decision: core.Decision{Limit: failures, RetryAfter: time.Minute, ResetAfter: time.Minute},
	}
	w := get(t, nethttp.Middleware(limiter(admits(1, 0), nil), failing(over), bothFormats)(page), "/")
	h := w.Header()
	h.Del("Content-Length")
	const want = "Cache-Control: no-store | Content-Type: application/problem+json | " +
		`Ratelimit: "failures";r=0;t=60 | Ratelimit-Policy: "failures";q=3;w=60 | Retry-After: 60 | ` +
		"X-Ratelimit-Limit: 3 | X-Ratelimit-Remaining: 0 | X-Ratelimit-Reset: 60"
	if got := flat(h); w.Code != 429 || got != want {
		t.Errorf("got  %d %s\nwant 429 %s", w.Code, got, want)
	}
	if body := w.Body.String(); !strings.Contains(body, `"violated-policies":["failures"]`) {
		t.Errorf("got the body %s, want it to name failures", body)
	}
}

// TestRefusedError: a key function's own refusal never admits, and wrapped errors are found. It is an event of the
// limiter that refused, and not of the guard.
func TestRefusedError(t *testing.T) {
	over := &keyfuncs.RefusedError{Decision: core.Decision{Limit: minute, RetryAfter: time.Second}}
	for name, c := range map[string]struct {
		err  error
		want int
	}{
		"wrapped": {fmt.Errorf("lookup: %w", over), 429},
		"an admission": {&keyfuncs.RefusedError{Decision: core.Decision{Allowed: true, Limit: minute, Remaining: 5}},
			429},
		"empty":           {&keyfuncs.RefusedError{}, 429},
		"the client left": {&keyfuncs.RefusedError{Decision: core.Decision{Err: context.Canceled}}, 503},
		"no store":        {&keyfuncs.RefusedError{Decision: core.Decision{Err: core.ErrStoreFull}}, 503},
		"bad request":     {fmt.Errorf("cookie: %w", keyfuncs.ErrBadRequest), 400},
	} {
		store := admits(1, 0)
		l, events := observed(store, nil)
		w := get(t, nethttp.Middleware(l, failing(c.err))(page), "/")
		none := errors.As(c.err, new(*keyfuncs.RefusedError))
		if w.Code != c.want || store.calls.Load() != 0 || (len(*events) == 0) != none {
			t.Errorf("%s: got %d, %d calls of the guard's store and the events %+v, want %d and no call",
				name, w.Code, store.calls.Load(), *events, c.want)
		}
	}
}

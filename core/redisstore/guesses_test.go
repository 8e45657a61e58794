package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/internal/redistest"
	"github.com/sashlimit/sash/keyfuncs"
)

// TestLimitFailures: keyfuncs.LimitFailures asks the verifier about no API key for which Redis has counted no
// failure, though Redis can be read; and what else stands in the way of an address goes with its first attempt.
func TestLimitFailures(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	failures := core.Must(core.New(core.Config{
		Name: "failures", Store: New(rdb), Limits: []core.Limit{core.Per(2, 100*time.Millisecond).Named("all")},
		OnStoreError: core.FailClosed, Timeout: time.Minute,
	}))
	asked := 0
	verify := func(context.Context, string) (string, error) {
		asked++
		return "", nil
	}
	f := keyfuncs.APIKey("X-API-Key", verify, keyfuncs.LimitFailures(failures, keyfuncs.RemoteIP))
	guess := func() (refused *keyfuncs.RefusedError) {
		_, err := f(&http.Request{RemoteAddr: "198.51.100.7:1", Header: http.Header{"X-Api-Key": {"wrong"}}})
		errors.As(err, &refused)
		return refused
	}
	admitted := func() error {
		if refused := guess(); refused != nil {
			return refused
		}
		return nil
	}
	var key string
	redistest.WaitFor(t, "the script and a log", func() error {
		if err := admitted(); err != nil {
			return err
		}
		keys := rdb.Keys(ctx, "*").Val()
		if len(keys) != 1 { // it has expired
			return fmt.Errorf("%d keys", len(keys))
		}
		key = keys[0]
		return nil
	})

	if err := rdb.ConfigSet(ctx, "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	asked = 0
	for range 1000 {
		if refused := guess(); refused == nil || !errors.Is(refused.Decision.Err, core.ErrStore) {
			t.Fatalf("a guess at a full Redis: got %v, want it refused for the store", refused)
		}
	}
	if asked != 0 {
		t.Errorf("with a full Redis: got %d of 1000 guesses at the verifier, want 0", asked)
	}
	rdb.ConfigSet(ctx, "maxmemory", "0")

	for name, put := range map[string]func(redis.Pipeliner){
		"a foreign value": func(p redis.Pipeliner) { p.Set(ctx, key, "hello", 0) },
		"a clock that was ahead": func(p redis.Pipeliner) {
			ahead := time.Now().Add(24 * time.Hour)
			p.RPush(ctx, key, logEntry(ahead, 0, 2), logEntry(ahead, 0, 1))
		},
	} {
		if _, err := rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
			p.Del(ctx, key)
			put(p)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		redistest.WaitFor(t, fmt.Sprint("an attempt after ", name), admitted)
	}
}

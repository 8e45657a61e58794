package redisstore_test

import (
	"fmt"
	"regexp"
	"runtime/pprof"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/internal/redistest"
)

// patient is a timeout for decisions that must be answered, however busy the
// machine is.
const patient = 20 * time.Second

func limiter(t testing.TB, c core.Config) *core.Limiter {
	t.Helper()
	l, err := core.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// mentions reports whether err is an error whose text has each of texts.
func mentions(err error, texts ...string) bool {
	if err == nil {
		return false
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			return false
		}
	}
	return true
}

// noLeaks fails the test if goroutines that it started are still there at its
// end, after all cleanups. Call it first. Goroutines inherit the label of the
// one that starts them, so tests that run in parallel are not in the way.
func noLeaks(t *testing.T) {
	pprof.SetGoroutineLabels(pprof.WithLabels(ctx, pprof.Labels("test", t.Name())))
	t.Cleanup(func() {
		redistest.WaitFor(t, "the goroutines of the test to end", func() error {
			if n, stacks := goroutines(t); n > 1 {
				return fmt.Errorf("%d goroutines are left:\n%s", n-1, stacks)
			}
			return nil
		})
	})
}

// goroutines is how many goroutines carry the test's label, its own among them,
// and those of the servers not.
func goroutines(t *testing.T) (n int, stacks string) {
	var all strings.Builder
	if err := pprof.Lookup("goroutine").WriteTo(&all, 1); err != nil {
		t.Fatal(err)
	}
	ofServer := regexp.MustCompile(`/redistest\.(start|\(\*Server\)\.run|init)`)
	for record := range strings.SplitSeq(all.String(), "\n\n") {
		if !strings.Contains(record, `"test":`+strconv.Quote(t.Name())) || ofServer.MatchString(record) {
			continue
		}
		for line := range strings.Lines(record) {
			var some int
			if _, err := fmt.Sscanf(line, "%d @", &some); err == nil {
				n += some
			}
		}
		stacks += record + "\n\n"
	}
	return n, stacks
}

// admin is a client that shares nothing with the one under test.
func admin(t testing.TB, addr string) *redis.Client {
	c := redis.NewClient(&redis.Options{Addr: addr, DisableIdentity: true, PoolSize: 2})
	t.Cleanup(func() { c.Close() })
	return c
}

// connections is how many clients are connected, without the one that asks.
func connections(rdb *redis.Client) (int, error) {
	list, err := rdb.ClientList(ctx).Result()
	return strings.Count(list, "id=") - strings.Count(list, "cmd=client|list"), err
}

// do has an administrator give commands.
func do(t testing.TB, admin *redis.Client, commands ...string) {
	t.Helper()
	for _, c := range commands {
		var args []any
		for word := range strings.FieldsSeq(c) {
			args = append(args, word)
		}
		if err := admin.Do(ctx, args...).Err(); err != nil {
			t.Fatalf("%s: %v", c, err)
		}
	}
}

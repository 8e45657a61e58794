package bench

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	redisrate "github.com/go-redis/redis_rate/v10"
	"github.com/sethvargo/go-limiter/memorystore"

	"github.com/sashlimit/sash/internal/redistest"
)

// smallLimit is the limit whose worst window is measured.
const smallLimit = 10

// attacks are the times of requests that make a limiter admit as much as it can: the first
// one opens a fixed window, a quiet time fills a token bucket, and then requests come
// from just before a boundary until just before the next, in so many windows after the first.
var attacks = []int{1, 2}

// attempt is one request: the decision was made at some time from begin to end.
type attempt struct{ begin, end time.Time }

// worstWindow returns the most attempts that lie within less than a window, wherever it
// starts. admitted is in the order of time.
func worstWindow(admitted []attempt, window time.Duration) int {
	worst, first := 0, 0
	for i, last := range admitted {
		for last.end.Sub(admitted[first].begin) >= window {
			first++
		}
		worst = max(worst, i-first+1)
	}
	return worst
}

// attack sends one request, waits until shortly before the end of window n, and sends
// requests, a step apart, until shortly before the end of the next. It returns the worst window.
func attack(n int, window, step time.Duration, decide func() (admitted bool)) int {
	start := time.Now()
	var admitted []attempt
	once := func() {
		begin := time.Now()
		if decide() {
			admitted = append(admitted, attempt{begin, time.Now()})
		}
	}
	once()
	early := 10 * step
	for at := time.Duration(n)*window - early; at < time.Duration(n+1)*window-early; at += step {
		time.Sleep(time.Until(start.Add(at)))
		once()
	}
	return worstWindow(admitted, window)
}

// visits returns a function that sends requests of one client through a handler.
func visits(h http.Handler, client int) func() bool {
	return func() bool {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = address(client)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code == http.StatusOK
	}
}

// TestWorstWindow: of a limit of 10, each library admits as many in some window as
// docs/comparison.md says. The libraries have a clock of the test's own, in which an hour
// takes no time.
func TestWorstWindow(t *testing.T) {
	for _, l := range peerLibraries() {
		if l.name == "go-limiter" {
			continue // reads the clock in a way of its own; see TestWorstWindowInRealTime
		}
		t.Run(l.name, func(t *testing.T) {
			worst := 0
			var h http.Handler
			open := func() {
				var err error
				if h, err = l.wrap(load{requests: smallLimit}, new(served)); err != nil {
					t.Fatal(err)
				}
			}
			if l.name == "ulule" {
				open() // a goroutine of its store never ends, so the store is made outside
			}
			synctest.Test(t, func(*testing.T) {
				if h == nil {
					open()
				}
				for client, n := range attacks {
					// A whole number of hours later the fixed windows of a clock begin again.
					time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(5 * time.Hour)))
					worst = max(worst, attack(n, time.Hour, 5*time.Second, visits(h, client)))
				}
			})
			wantCell(t, peerRow(l.name), worstColumn, strconv.Itoa(worst))
		})
	}
}

// TestWorstWindowInRealTime does the same for the limiters whose clock cannot be set, in
// windows of 200 ms. A machine that is busy may see less than the worst, so the attacks are
// repeated until it has been seen.
func TestWorstWindowInRealTime(t *testing.T) {
	const window = 200 * time.Millisecond
	ctx := t.Context()
	memory, err := memorystore.New(&memorystore.Config{Tokens: smallLimit, Interval: window})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = memory.Close(context.Background()) })
	gcra := redisrate.NewLimiter(redistest.Start(t).Client(t))
	limit := redisrate.Limit{Rate: smallLimit, Burst: smallLimit, Period: window}
	for name, decide := range map[string]func(key string) (bool, error){
		"go-limiter": func(key string) (bool, error) {
			_, _, _, ok, err := memory.Take(ctx, key)
			return ok, err
		},
		"redis_rate": func(key string) (bool, error) {
			result, err := gcra.Allow(ctx, key, limit)
			return err == nil && result.Allowed > 0, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want, err := strconv.Atoi(cell(t, name, worstColumn))
			if err != nil {
				t.Fatal(err)
			}
			worst, key := 0, 0
			for deadline := time.Now().Add(20 * time.Second); worst < want && time.Now().Before(deadline); {
				for _, n := range attacks {
					key++
					worst = max(worst, attack(n, window, time.Millisecond, func() bool {
						ok, err := decide(strconv.Itoa(key))
						if err != nil {
							t.Error(err)
						}
						return ok
					}))
				}
			}
			if worst != want {
				t.Errorf("%d in the worst window, and docs/comparison.md says %d", worst, want)
			}
		})
	}
}

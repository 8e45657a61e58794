package nethttp_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/keyfuncs"
	"github.com/sashlimit/sash/nethttp"
)

// sink is a ResponseWriter that costs nothing.
type sink struct{ header http.Header }

func (s sink) Header() http.Header         { return s.header }
func (s sink) Write(b []byte) (int, error) { return len(b), nil }
func (s sink) WriteHeader(int)             {}

func (s sink) SetReadDeadline(time.Time) error { return nil }

func inMemory(limit core.Limit, opts ...nethttp.Option) http.Handler {
	l := core.Must(core.New(core.Config{Name: "test", Store: memstore.New(), Limits: []core.Limit{limit}}))
	return nethttp.Middleware(l, keyfuncs.RemoteIP, opts...)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
}

// One allocation for the key and one for the fields of the response, admitted or
// refused, with a body or without, however long the client has to wait.
func TestAllocations(t *testing.T) {
	for _, c := range []struct {
		limit   core.Limit
		refused bool
		most    float64
	}{
		{core.PerHour(100_000), false, 2},
		{core.Per(1, 10*time.Minute), true, 2},
		{core.Per(1, core.MaxWindow), true, 2},
	} {
		h := inMemory(c.limit)
		w := sink{http.Header{}}
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("body"))
		serve := func() {
			clear(w.header) // each response has a header of its own
			h.ServeHTTP(w, r)
		}
		serve()
		if got := testing.AllocsPerRun(1000, serve); got > c.most {
			t.Errorf("%v: %v allocations; at most %v", c.limit, got, c.most)
		}
		if w.header.Get("X-RateLimit-Limit") != strconv.FormatInt(c.limit.Requests, 10) ||
			(w.header["Retry-After"] != nil) != c.refused {
			t.Errorf("%v: %v", c.limit, w.header)
		}
	}
}

func BenchmarkMiddleware(b *testing.B) {
	for _, c := range []struct {
		name  string
		limit core.Limit
		keys  int
	}{
		{"allowed/1key", core.PerHour(1 << 40).Using(core.SlidingCounter), 1},
		{"allowed/100000keys", core.PerHour(1 << 40).Using(core.SlidingCounter), 100_000},
		{"allowed/log", core.Per(1_000_000, time.Millisecond), 1},
		{"refused/1key", core.PerDay(1), 1},
	} {
		b.Run(c.name, func(b *testing.B) {
			h := inMemory(c.limit)
			peers := make([]string, c.keys)
			for i := range peers {
				peers[i] = fmt.Sprintf("10.%d.%d.%d:80", i>>16, i>>8&255, i&255)
			}
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			w := sink{http.Header{}}
			i := 0
			serve := func() {
				r.RemoteAddr = peers[i%len(peers)]
				i++
				clear(w.header)
				h.ServeHTTP(w, r)
			}
			for range 2 * len(peers) { // every key is there
				serve()
			}
			// The requests come in another order than the keys have in memory.
			rand.Shuffle(len(peers), func(i, j int) { peers[i], peers[j] = peers[j], peers[i] })
			b.ReportAllocs()
			for b.Loop() {
				serve()
			}
		})
	}
}

// What the options cost that look at the handler, and what they allocate beside the two of
// a guard without them.
func BenchmarkFollow(b *testing.B) {
	for _, c := range []struct {
		name string
		opts []nethttp.Option
	}{
		{"none", nil},
		{"CountWhen/counted", []nethttp.Option{nethttp.CountWhen(func(*http.Request, int) bool { return true })}},
		{"CountWhen/returned", []nethttp.Option{nethttp.CountWhen(func(*http.Request, int) bool { return false })}},
		{"CostAfter", []nethttp.Option{nethttp.CostAfter(func(*http.Request, int, int64) int { return 2 })}},
		{"WithDecisionInContext", []nethttp.Option{nethttp.WithDecisionInContext()}},
	} {
		b.Run(c.name, func(b *testing.B) {
			h := inMemory(core.PerHour(1<<40).Using(core.SlidingCounter), c.opts...)
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			w := sink{http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				clear(w.header)
				h.ServeHTTP(w, r)
			}
		})
	}
}

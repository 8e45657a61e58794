package nethttp_test

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/headers"
	"github.com/sashlimit/sash/keyfuncs"
	"github.com/sashlimit/sash/nethttp"
)

// sink is a ResponseWriter that costs nothing.
type sink struct{ header http.Header }

func (s sink) Header() http.Header         { return s.header }
func (s sink) Write(b []byte) (int, error) { return len(b), nil }
func (s sink) WriteHeader(int)             {}

func (s sink) SetReadDeadline(time.Time) error { return nil }

// TestAllocations: one allocation for the key and two for the limit fields of each format, and two for the fields of a
// refusal and a string for each of its numbers, with a body or without, however long the client has to wait.
func TestAllocations(t *testing.T) {
	for _, c := range []struct {
		limit   core.Limit
		formats []headers.Format
		refused bool
		most    float64
	}{
		{core.PerHour(100_000), []headers.Format{headers.XRateLimit}, false, 3},
		{core.PerHour(100_000), []headers.Format{headers.XRateLimit.UnixReset(), headers.IETF}, false, 5},
		{core.Per(1, 10*time.Minute), []headers.Format{headers.XRateLimit}, true, 7},
		{core.Per(1, core.MaxWindow), []headers.Format{headers.XRateLimit}, true, 7},
	} {
		l := core.Must(core.New(core.Config{Store: memstore.New(), Limits: []core.Limit{c.limit}}))
		nothing := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
		h := nethttp.Middleware(l, keyfuncs.RemoteIP, nethttp.WithHeaders(c.formats...))(nothing)
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

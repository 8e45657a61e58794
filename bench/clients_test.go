package bench

import (
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashlimit/sash/core/memstore"
)

// peerLibraries returns the middlewares in memory that docs/comparison.md has, by the names of its rows.
func peerLibraries() []library {
	peers := libraries()
	for _, l := range slices.Concat(echoLibraries(), echo5Libraries()) {
		if !l.sash {
			peers = append(peers, l)
		}
	}
	return peers
}

// inBubble calls f with a library that has a clock of the test's own. Some have goroutines that never end, so they are
// made outside of the bubble.
func inBubble(t *testing.T, l library, requests int, f func(http.Handler)) {
	t.Run(l.name, func(t *testing.T) {
		var h http.Handler
		open := func() {
			var err error
			if h, err = l.wrap(perHour(requests), new(served)); err != nil {
				t.Fatal(err)
			}
		}
		if l.name == "ulule" || l.name == "go-limiter" {
			open()
		}
		synctest.Test(t, func(*testing.T) {
			if h == nil {
				open()
			}
			f(h)
		})
	})
}

// TestWorstWindow: of a limit of 10, each library admits as many in some window as docs/comparison.md says.
func TestWorstWindow(t *testing.T) {
	for _, l := range peerLibraries() {
		if l.name == "go-limiter" {
			continue // reads the clock in a way of its own; see TestWorstWindowInRealTime
		}
		inBubble(t, l, smallLimit, func(h http.Handler) {
			worst := 0
			for client, n := range attacks {
				// A whole number of hours later the fixed windows of a clock begin again.
				time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(5 * time.Hour)))
				worst = max(worst, attack(n, time.Hour, 5*time.Second, visits(h, client)))
			}
			wantCell(t, l.name, worstColumn, strconv.Itoa(worst))
		})
	}
}

// retryAfter says in words what a Retry-After is, where 2400 s would be exact.
func retryAfter(field string) string {
	_, err := http.ParseTime(field)
	switch {
	case field == "":
		return "none"
	case field == "2400" || field == "2401": // rounded up
		return "exact"
	case field == "3600":
		return "the whole window"
	case strings.Contains(field, ":") && err != nil:
		return "an invalid date" // it ends in UTC, where HTTP has GMT
	}
	return field
}

// limitFields returns the fields of a limit, in the order of the alphabet. Of names that begin alike, all but the first
// are cut.
func limitFields(fields http.Header) string {
	var names []string
	for name := range fields {
		if strings.Contains(strings.ToLower(name), "rate") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	prefix := ""
	for i, name := range names {
		if rest, ok := strings.CutPrefix(name, prefix+"-"); ok && prefix != "" {
			names[i] = "`-" + rest + "`"
			continue
		}
		names[i], prefix = "`"+name+"`", name[:strings.LastIndex(name, "-")]
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// TestRefusals: a client has used a limit of 1 an hour, and is refused 20 minutes later. It would be admitted again in
// 2400 s. What each library tells it is what docs/comparison.md says.
func TestRefusals(t *testing.T) {
	for _, l := range peerLibraries() {
		inBubble(t, l, 1, func(h http.Handler) {
			visits(h, 1)()
			time.Sleep(20 * time.Minute)
			r, w := httptest.NewRequest(http.MethodGet, "/", nil), httptest.NewRecorder()
			r.RemoteAddr = address(1)
			h.ServeHTTP(w, r)
			if w.Code != http.StatusTooManyRequests {
				t.Errorf("%s: the second request gets %d, want 429", l.name, w.Code)
			}
			wantCell(t, l.name, fieldsColumn, limitFields(w.Header()))
			wantCell(t, l.name, retryColumn, retryAfter(w.Header().Get("Retry-After")))
		})
	}
}

// TestNeighbours: two requests come from two addresses of one /64 of IPv6, which is what one client has.
func TestNeighbours(t *testing.T) {
	for _, l := range peerLibraries() {
		var through served
		visit, err := visitor(l, perHour(1), &through)
		if err != nil {
			t.Fatal(err)
		}
		visit("[2001:db8::1]:4711")
		visit("[2001:db8::2]:4711")
		wantCell(t, l.name, neighboursColumn, map[served]string{1: "one client", 2: "two clients"}[through])
	}
}

// TestTwoLimits: a client sends 5 requests through two limiters in a row, of 5 and of 2. The first has counted all 5,
// of which the second refused 3; and now it refuses the client by itself.
func TestTwoLimits(t *testing.T) {
	for _, l := range peerLibraries() {
		var through served
		inner, err := l.wrap(perHour(2), &through)
		if err != nil {
			t.Fatal(err)
		}
		outer, err := l.wrap(perHour(5), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			inner.ServeHTTP(w, r)
		}))
		if err != nil {
			t.Fatal(err)
		}
		visit := visits(outer, 1)
		for range 5 {
			visit()
		}
		inner = &through
		if visit() || through != 2 {
			t.Errorf("%s: %d requests reach the handler, want 2 and no sixth", l.name, through)
		}
	}
}

// TestFloodOfClients: a client has used up its limit, and then many others come. By default no library forgets the
// client: but for sash they all grow. throttled does forget it if it is told to keep no more than so many keys.
func TestFloodOfClients(t *testing.T) {
	bounded := library{"throttled, at most 10,000 keys", false, func(l load, next http.Handler) (http.Handler, error) {
		return l.guardThrottled(10_000, next)
	}}
	for _, l := range append(peerLibraries(), bounded) {
		var through served
		limit := perHour(1)
		limit.room = memstore.MinMaxBytes // for a tenth of the clients; only sash's stores look at it
		visit, err := visitor(l, limit, &through)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 20_000 {
			visit(address(i))
		}
		through = 0
		if visit(address(0)); (through > 0) != (l.name == bounded.name) {
			t.Errorf("%s: the first client is let in again: %v", l.name, through > 0)
		}
	}
}

// heapOf returns the bytes of the heap that a library takes for each of so many clients of one request.
func heapOf(t testing.TB, l library, clients int) float64 {
	heap := func() uint64 {
		runtime.GC()
		runtime.GC() // frees what finalizers and pools released in the first run
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	visit, err := visitor(l, perHour(1000), new(served))
	if err != nil {
		t.Fatal(err)
	}
	for i := range clients {
		// A string of its own, as a server makes for each connection: what a library keeps of it is its own to pay.
		visit(address(i))
	}
	after := heap()
	runtime.KeepAlive(visit)
	return float64(after-before) / float64(clients)
}

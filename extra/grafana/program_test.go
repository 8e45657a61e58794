package grafana_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/core/redisstore"
	"github.com/sashlimit/sash/extra/sashprom"
	"github.com/sashlimit/sash/internal/redistest"
	"github.com/sashlimit/sash/nethttp"
)

// exporter serves metrics for Prometheus until the test ends.
func exporter(t *testing.T, m *sashprom.Metrics) *httptest.Server {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(m)
	server := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	t.Cleanup(server.Close)
	return server
}

func address(s *httptest.Server) string { return strings.TrimPrefix(s.URL, "http://") }

// program is a server of the example kind: routes with the middleware of net/http, on
// Redis and in memory, with each policy.
type program struct {
	mux      *http.ServeMux
	exporter *httptest.Server
}

func newProgram(t *testing.T, server *redistest.Server) *program {
	t.Helper()
	m := core.Must(sashprom.New())
	redis := redisstore.New(server.Client(t), redisstore.WithLease(1000, 100*time.Millisecond))
	memory := memstore.New()
	small := memstore.New(memstore.WithMaxBytes(memstore.MinMaxBytes))
	for name, store := range map[string]core.Store{"redis": redis, "memory": memory, "small": small} {
		if err := m.Watch(name, store); err != nil {
			t.Fatal(err)
		}
	}

	api := newLimiter(t, core.Config{Name: "api", Store: redis, Limits: []core.Limit{core.PerHour(25)},
		Observer: m.For("redis")})
	search := newLimiter(t, core.Config{Name: "search", Store: redis, Limits: []core.Limit{core.PerHour(25)},
		Observer: m.For("redis"), OnStoreError: core.Fallback(memory, 1)})
	web := newLimiter(t, core.Config{Name: "web", Store: memory, Limits: []core.Limit{core.PerHour(25)},
		Observer: m.For("memory")})
	door := newLimiter(t, core.Config{Name: "door", Store: small, Limits: []core.Limit{core.PerHour(2)},
		Observer: m.For("small")})

	p := &program{mux: http.NewServeMux(), exporter: exporter(t, m)}
	p.handle("/api", api)
	p.handle("/login", core.Must(api.Rule("login", core.PerHour(25))).WithPolicy(core.FailClosed))
	p.handle("/hot", core.Must(api.Rule("hot", core.PerHour(100_000))))
	p.handle("/search", search)
	p.handle("/web", web)
	p.handle("/door", door)
	return p
}

func newLimiter(t *testing.T, c core.Config) *core.Limiter {
	t.Helper()
	limiter, err := core.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return limiter
}

// handle limits a path for each client that the header names.
func (p *program) handle(path string, limiter *core.Limiter) {
	client := func(r *http.Request) (string, error) { return "client:" + r.Header.Get("Client"), nil }
	nothing := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	p.mux.Handle(path, nethttp.Middleware(limiter, client)(nothing))
}

// load is requests to a program from the moment it is started until the test ends.
type load struct {
	program  *program
	flooding atomic.Bool // clients that were never seen before come to the door
}

// start starts the load: on each path nine clients with usual habits, each of which is
// another one after 20 requests, and one that asks too often.
func (l *load) start(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	var group sync.WaitGroup
	for _, path := range []string{"/api", "/login", "/search", "/web"} {
		group.Go(func() {
			every(ctx, 10*time.Millisecond, func(n int) {
				client := fmt.Sprintf("usual %d, %d", n%10, n/200)
				if n%10 == 0 {
					client = "too often"
				}
				l.request(path, client)
			})
		})
	}
	group.Go(func() { every(ctx, 4*time.Millisecond, func(int) { l.request("/hot", "hot") }) })
	group.Go(func() {
		every(ctx, 4*time.Millisecond, func(n int) {
			for i := 0; i < 10 && l.flooding.Load(); i++ {
				l.request("/door", fmt.Sprintf("stranger %d, %d", n, i))
			}
		})
	})
	t.Cleanup(func() {
		stop()
		group.Wait()
	})
}

// every calls f again and again until ctx ends.
func every(ctx context.Context, pause time.Duration, f func(n int)) {
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			f(n)
		}
	}
}

func (l *load) request(path, client string) {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.Header.Set("Client", client)
	l.program.mux.ServeHTTP(httptest.NewRecorder(), r)
}

// mistaken is a program whose limiter notices a mistake, a large log, at its first decision.
type mistaken struct {
	limiter  *core.Limiter
	exporter *httptest.Server
}

func newMistaken(t *testing.T) *mistaken {
	t.Helper()
	m := core.Must(sashprom.New())
	limiter := newLimiter(t, core.Config{
		Name: "mistaken", Store: memstore.New(), Limits: []core.Limit{core.PerHour(1_000_000)},
		Observer: m.For("memory"),
	})
	return &mistaken{limiter, exporter(t, m)}
}

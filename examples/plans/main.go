// Command plans is an API whose clients have keys and plans, with what most services need around it: limits for groups
// of routes, a login, a health check, metrics, refusals in the form of the API, and a graceful stop. A whole program to
// copy; gin.go has the same routes for gin.
//
//	[REDIS_URL=redis://127.0.0.1:6379/0] go run . [-addr 127.0.0.1:8080] [-metrics 127.0.0.1:9090] [-gin]
//	curl -i -H "X-API-Key: key-of-acme" http://127.0.0.1:8080/v1/items
package main

import (
	"context"
	"encoding/json"
	"flag"
	"io"
	"log"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/core/redisstore"
	"github.com/sashlimit/sash/extra/sashprom"
	"github.com/sashlimit/sash/headers"
	"github.com/sashlimit/sash/keyfuncs"
	"github.com/sashlimit/sash/nethttp"
)

// plans are the limits of each plan: other numbers for the same windows, so that a client whose plan changes keeps what
// it has used.
var plans = map[string][]core.Limit{
	"free": {core.PerMinute(10), core.PerDay(1_000)},
	"pro":  {core.PerMinute(600), core.PerDay(100_000)},
}

// accounts and planOf stand for your tables: the account of each API key, and the plan of each account.
var (
	accounts = map[string]string{"key-of-acme": "acme", "key-of-bob": "bob"}
	planOf   = map[string]string{keyfuncs.APIKeyKey("acme"): "pro", keyfuncs.APIKeyKey("bob"): "free"}
)

// service is what the routes need, for net/http and for gin.
type service struct {
	api, exports, login *core.Limiter
	client              keyfuncs.Func    // names the account of an API key
	planned             []nethttp.Option // of the guard of all routes with an API key
	refusal             nethttp.Option
	failed              nethttp.Option
}

// newService makes the limits. observer hears of each decision.
func newService(store core.Store, observer core.Observer) service {
	api := core.Must(core.New(core.Config{Name: "api", Store: store, Limits: plans["free"], Observer: observer}))
	guesses := core.Must(core.New(core.Config{ // of API keys, in memory: a right key then costs no round trip
		Name: "guesses", Store: memstore.New(), Observer: observer,
		Limits: []core.Limit{core.PerMinute(10).Named("guesses")},
	}))
	identify := func(_ context.Context, presented string) (string, error) { return accounts[presented], nil }
	refusal := nethttp.WithRefusal(refuse)
	return service{
		api:     api,
		exports: core.Must(api.Rule("exports", core.PerMinute(5).Named("exports"))),
		login:   core.Must(api.Rule("login", core.Per(5, 15*time.Minute))).WithPolicy(core.FailClosed),
		client:  keyfuncs.APIKey("X-API-Key", identify, keyfuncs.LimitFailures(guesses, keyfuncs.RemoteIP)),
		planned: []nethttp.Option{refusal, nethttp.WithLimits(func(_ *http.Request, key string) ([]core.Limit, error) {
			return plans[planOf[key]], nil // nil: the free plan
		})},
		refusal: refusal,
		failed:  nethttp.CountWhen(func(_ *http.Request, status int) bool { return status == http.StatusUnauthorized }),
	}
}

// routes returns the API for net/http.
func (s service) routes() http.Handler {
	exports := http.NewServeMux() // a group of routes with a limit of its own, beside that of the plan
	exports.HandleFunc("GET /v1/exports/{id}", answer(`{"export":"done"}`))
	v1 := http.NewServeMux()
	v1.HandleFunc("GET /v1/items", answer(`{"items":[]}`))
	v1.Handle("/v1/exports/", nethttp.Middleware(s.exports, s.client, s.refusal)(exports))
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", answer(`{"status":"ok"}`))
	login := nethttp.Middleware(s.login, keyfuncs.RemoteIP, s.failed, s.refusal)
	mux.Handle("POST /login", login(http.HandlerFunc(logIn)))
	mux.Handle("/v1/", nethttp.Middleware(s.api, s.client, s.planned...)(v1))
	return mux
}

// refuse writes a refusal as the API writes all its errors. Retry-After and the fields of the limit are set.
func refuse(w http.ResponseWriter, _ *http.Request, d core.Decision) {
	problem := map[string]any{"code": nethttp.Status(d), "message": http.StatusText(nethttp.Status(d))}
	if seconds, ok := headers.RetryAfter(d); ok {
		problem["retry_after_seconds"] = seconds
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(nethttp.Status(d))
	_ = json.NewEncoder(w).Encode(map[string]any{"error": problem})
}

func answer(json string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, json)
	}
}

func logIn(w http.ResponseWriter, r *http.Request) { // your own check
	if r.PostFormValue("password") != "right" {
		w.WriteHeader(http.StatusUnauthorized)
	}
}

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "listen on this `address`")
	metricsAddr := flag.String("metrics", "127.0.0.1:9090", "serve /metrics on this `address`, not for the public")
	withGin := flag.Bool("gin", false, "serve the routes by gin")
	flag.Parse()
	var store core.Store = memstore.New() // counts in this process
	check := func(context.Context) error { return nil }
	if url := os.Getenv("REDIS_URL"); url != "" {
		redis := core.Must(redisstore.Open(url)) // counts for all replicas together
		store, check = redis, redis.Check
	}
	metrics := core.Must(sashprom.New(sashprom.ByRoute()))
	prometheus.MustRegister(metrics)
	if err := metrics.Watch("store", store); err != nil {
		log.Fatal(err)
	}
	s := newService(store, core.Observers(metrics.For("store"), core.LogErrors(slog.Default(), time.Minute)))
	handler := s.routes()
	if *withGin {
		handler = s.ginRoutes()
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	if err := check(ctx); err != nil { // the limits hold as soon as Redis is fit, so serve all the same
		log.Print(err)
	}
	server := &http.Server{Addr: *addr, Handler: handler, MaxHeaderBytes: 64 << 10, ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout: 30 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute}
	scraped := &http.Server{Addr: *metricsAddr, Handler: promhttp.Handler(), ReadHeaderTimeout: 5 * time.Second}
	go func() { log.Print(scraped.ListenAndServe()) }()
	go func() { log.Print(server.ListenAndServe()); stop() }()
	<-ctx.Done()
	_ = server.Shutdown(context.Background()) // waits for the requests under way
}

// Command chi is an API with limits on the chi router, a whole program to copy.
//
//	[REDIS_URL=redis://127.0.0.1:6379/0] go run ./examples/chi [-addr 127.0.0.1:8080] [-trust 10.0.0.0/8]
package main

import (
	"context"
	"flag"
	"io"
	"log"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/sashlimit/sash/chi"
	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/core/redisstore"
	"github.com/sashlimit/sash/keyfuncs"
	"github.com/sashlimit/sash/nethttp"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "listen on this `address`")
	var trusted netip.Prefix
	flag.TextVar(&trusted, "trust", netip.Prefix{}, "believe the X-Forwarded-For of the proxies in this `CIDR`")
	flag.Parse()
	var store core.Store = memstore.New() // counts in this process
	check := func(context.Context) error { return nil }
	if url := os.Getenv("REDIS_URL"); url != "" {
		redis := core.Must(redisstore.Open(url)) // counts for all replicas together
		store, check = redis, redis.Check
	}
	ip := keyfuncs.RemoteIP // of the peer
	if trusted.IsValid() {
		ip = keyfuncs.IP(keyfuncs.TrustProxies(trusted))
	}
	api := core.Must(core.New(core.Config{Name: "example", Store: store, Limits: []core.Limit{core.PerMinute(100)}}))
	upload := core.Must(api.Rule("upload", core.PerMinute(5)))
	login := core.Must(api.Rule("login", core.Per(5, 15*time.Minute))).WithPolicy(core.FailClosed) // never unlimited

	r := chi.NewRouter()
	r.Use(sashchi.Middleware(api, ip, nethttp.SkipPaths("/health"))) // all routes, but GET /health
	r.Get("/api/data", answer(`{"message":"Hello, World!"}`))
	r.With(sashchi.Middleware(upload, ip)).Post("/api/upload", answer(`{"status":"uploaded"}`))
	r.With(sashchi.Middleware(login, ip)).Post("/login", answer(`{"status":"welcome"}`))
	r.Get("/health", answer(`{"status":"ok"}`))

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	if err := check(ctx); err != nil { // the limits hold as soon as Redis is fit, so serve all the same
		log.Print(err)
	}
	server := &http.Server{Addr: *addr, Handler: r, MaxHeaderBytes: 64 << 10, ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout: 30 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute}
	go func() { log.Print(server.ListenAndServe()); stop() }()
	<-ctx.Done()
	_ = server.Shutdown(context.Background()) // waits for the requests under way
}

func answer(json string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, json)
	}
}

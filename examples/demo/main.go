// Command demo is the API of the example servers, and a page at "/" that plays with its middleware.
//
//	go run ./examples/demo [-addr 127.0.0.1:8080] [-redis URL]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/sashlimit/sash/core/redisstore"
	"github.com/sashlimit/sash/examples/demo/internal/live"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "listen on this `address`")
	redis := flag.String("redis", "",
		"count in the Redis of this `URL`, such as redis://127.0.0.1:6379/0; empty: in memory")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	if err := run(ctx, *addr, *redis, os.Stdout, slog.New(slog.NewJSONHandler(os.Stderr, nil))); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run serves until ctx ends. When the program listens it says so on stdout.
func run(ctx context.Context, addr, redis string, stdout io.Writer, log *slog.Logger) error {
	stores, err := live.OpenStores(redis)
	if err != nil {
		return fmt.Errorf("-redis: %w", err)
	}
	defer stores.Close()
	listener, err := net.Listen("tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w: give another one, such as make demo ADDR=127.0.0.1:8081", err)
	}
	if err != nil {
		return err
	}
	page := live.Handler(stores, log)
	mux := http.NewServeMux()
	mux.Handle("/{$}", page)
	mux.Handle("/live/", page)
	mux.Handle("/", api(stores.Store(), log))
	fmt.Fprintf(stdout, welcome, listener.Addr(), where(redis))
	if shared, ok := stores.Store().(*redisstore.Store); ok {
		if err := shared.Check(ctx); err != nil { // the limits hold as soon as Redis is fit, so serve all the same
			log.Warn("Redis is not fit for counting", "error", err.Error())
		}
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 2 * time.Minute,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn)}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// where returns in words what counts, without a password.
func where(redis string) string {
	if u, err := url.Parse(redis); redis != "" && err == nil {
		return "in " + u.Redacted()
	}
	return "in memory"
}

const welcome = `Listening on http://%[1]s, counting %[2]s.

Open http://%[1]s in a browser, or try in another terminal:

  curl -i http://%[1]s/api/data
  for i in 1 2 3 4 5 6; do curl -si -X POST http://%[1]s/api/upload | grep -iE '^(HTTP|X-RateLimit|Retry)'; done
  curl -i http://%[1]s/health

`

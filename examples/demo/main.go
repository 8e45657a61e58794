// Command demo is the example API of examples/nethttp, and a page at "/" that plays with its middleware.
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
	"strings"
	"syscall"

	"github.com/sashlimit/sash/examples/demo/internal/live"
	"github.com/sashlimit/sash/examples/internal/app"
	"github.com/sashlimit/sash/keyfuncs"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run serves until ctx ends. args are the flags of the program. When the program listens it says so on stdout; stderr
// gets the log, and the help that -h asks for.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	addr := flags.String("addr", "127.0.0.1:8080", "listen on this `address`")
	redis := flags.String("redis", "",
		"count in the Redis of this `URL`, such as redis://127.0.0.1:6379/0; empty: in memory")
	if help, err := app.ParseFlags(flags, args, stderr); help || err != nil {
		return err
	}
	stores, err := live.OpenStores(*redis)
	if err != nil {
		return fmt.Errorf("-redis: %w", err)
	}
	defer stores.Close()
	log := slog.New(slog.NewJSONHandler(stderr, nil))
	listener, err := net.Listen("tcp", *addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w: give another one, such as make demo ADDR=127.0.0.1:8081", err)
	}
	if err != nil {
		return err
	}
	served := handler(stores, log)
	fmt.Fprintf(stdout, welcome, listener.Addr(), where(*redis))
	app.Check(ctx, stores.Store(), log)
	return app.Serve(ctx, listener, served, log)
}

// handler serves the page, and the API with its access log. What the page sends is not logged: it is too much.
func handler(stores *live.Stores, log *slog.Logger) http.Handler {
	page := live.Handler(stores, log)
	api := app.Handler(routes(app.New(stores.Store(), 0, keyfuncs.RemoteIP, log)), log)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" || strings.HasPrefix(r.URL.Path, "/live/") {
			page.ServeHTTP(w, r)
			return
		}
		api.ServeHTTP(w, r)
	})
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
  for i in 1 2 3 4 5 6; do curl -si -X POST http://%[1]s/api/upload -H 'X-API-Key: demo-key-1' |
    grep -iE '^(HTTP|X-RateLimit|Retry)'; done
  curl -i http://%[1]s/health

`

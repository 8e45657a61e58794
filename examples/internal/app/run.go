package app

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/core/redisstore"
	"github.com/sashlimit/sash/examples/internal/decisionlog"
	"github.com/sashlimit/sash/extra/heaviest"
	"github.com/sashlimit/sash/keyfuncs"
)

// Run is the main function of an example. It serves the routes until SIGINT or
// SIGTERM, and returns after the running requests have finished. It exits with 1
// on an error.
func Run(routes func(*App) http.Handler) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	if err := run(ctx, os.Args[1:], os.Stderr, routes); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run serves the routes until ctx ends. args are the flags of the program; stderr
// gets the log, and the help that -h asks for.
func run(ctx context.Context, args []string, stderr io.Writer, routes func(*App) http.Handler) (err error) {
	flags := flag.NewFlagSet("example", flag.ContinueOnError)
	addr := flags.String("addr", "127.0.0.1:8080", "listen on this `address`")
	redis := flags.String("redis", "",
		"count in the Redis of this `URL`, such as redis://127.0.0.1:6379/0; empty: in memory")
	timeout := flags.Duration("timeout", 100*time.Millisecond, "wait this `long` for Redis")
	trust := flags.String("trust", "", "believe X-Forwarded-For of the proxies in these `CIDRs`, separated by commas")
	decisions := flags.String("decisions", "", "write every decision to this `file`, by examples/internal/decisionlog")
	admin := flags.String("admin", "", "listen on this `address` for operators too, such as 127.0.0.1:8081; "+
		"the name is admin, and the password is in SASH_ADMIN_PASSWORD")
	if help, err := ParseFlags(flags, args, stderr); help || err != nil {
		return err
	}
	ip, err := clientIP(*trust)
	if err != nil {
		return fmt.Errorf("-trust: %w", err)
	}
	store, closeStore, err := openStore(*redis)
	if err != nil {
		return fmt.Errorf("-redis: %w", err)
	}
	defer closeStore()
	log := slog.New(slog.NewJSONHandler(stderr, nil))
	var observers []core.Observer
	if *decisions != "" {
		file, err := decisionlog.Create(*decisions)
		if err != nil {
			return fmt.Errorf("-decisions: %w", err)
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		observers = append(observers, file)
	}
	heavy := core.Must(heaviest.New(20))
	if *admin != "" {
		observers = append(observers, heavy)
	}
	app := New(store, *timeout, ip, log, observers...)
	example := Handler(routes(app), log)
	Check(ctx, store, log) // after the limiters are made, since it looks at their timeouts
	if *admin == "" {
		return serve(ctx, *addr, example, log)
	}
	pages, err := operators(app, store, heavy, os.Getenv("SASH_ADMIN_PASSWORD"))
	if err != nil {
		return fmt.Errorf("-admin: %w", err)
	}
	return serveBoth(ctx, endpoint{*addr, example}, endpoint{*admin, pages}, log)
}

// ParseFlags parses the arguments of a program that has only flags. If they ask for
// help, ParseFlags writes it to stderr and returns true. The caller prints the error.
func ParseFlags(flags *flag.FlagSet, args []string, stderr io.Writer) (help bool, err error) {
	flags.SetOutput(io.Discard)
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		flags.SetOutput(stderr)
		flags.Usage()
		return true, nil
	case err != nil:
		return false, err
	case flags.NArg() > 0:
		return false, fmt.Errorf("unexpected argument %q: there are only flags, see -h", flags.Arg(0))
	}
	return false, nil
}

// openStore returns the store of a Redis URL, or a store in memory if url is empty,
// and the function that closes it. openStore does not talk to Redis, so that a
// server can start while Redis is down.
func openStore(url string) (core.Store, func(), error) {
	if url == "" {
		return memstore.New(), func() {}, nil
	}
	store, err := redisstore.Open(url)
	if err != nil {
		return nil, nil, err
	}
	return store, func() { _ = store.Close() }, nil
}

// clientIP returns the key function for the address of the client. trust lists the
// prefixes of trusted proxies, which set X-Forwarded-For; it may be empty.
func clientIP(trust string) (ip keyfuncs.Func, err error) {
	if trust == "" {
		return keyfuncs.RemoteIP, nil
	}
	var prefixes []netip.Prefix
	for s := range strings.SplitSeq(trust, ",") {
		prefix, err := netip.ParsePrefix(strings.TrimSpace(s))
		if err != nil {
			return nil, err
		}
		prefixes = append(prefixes, prefix)
	}
	defer func() { // keyfuncs panics on prefixes that are too wide
		if problem := recover(); problem != nil {
			err = fmt.Errorf("%v", problem)
		}
	}()
	return keyfuncs.IP(keyfuncs.TrustProxies(prefixes...)), nil
}

// serve listens on addr and serves until ctx ends.
func serve(ctx context.Context, addr string, handler http.Handler, log *slog.Logger) error {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	return Serve(ctx, listener, handler, log)
}

// Serve serves on listener until ctx ends, and returns after the running requests have finished. It closes listener.
func Serve(ctx context.Context, listener net.Listener, handler http.Handler, log *slog.Logger) error {
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	log.Info("listening", "addr", listener.Addr().String())
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	log.Info("shutting down")
	grace, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return server.Shutdown(grace)
}

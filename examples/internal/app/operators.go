package app

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"log/slog"
	"net/http"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/core/redisstore"
	"github.com/sashlimit/sash/extra/heaviest"
	"github.com/sashlimit/sash/extra/sashadmin"
)

// operators returns the pages for operators, behind a password. Their name is admin.
func operators(a *App, store core.Store, heavy *heaviest.Clients, password string) (http.Handler, error) {
	if password == "" {
		return nil, errors.New("the pages for operators need a password: give it in SASH_ADMIN_PASSWORD")
	}
	pages, err := sashadmin.New(sashadmin.Config{
		Limiters: a.limiters, Heaviest: heavy,
		Stores: map[string]func() any{"store": func() any { return stats(store) }},
	})
	if err != nil {
		return nil, err
	}
	want := sha256.Sum256([]byte("admin:" + password))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, given, _ := r.BasicAuth()
		got := sha256.Sum256([]byte(name + ":" + given))
		if subtle.ConstantTimeCompare(got[:], want[:]) != 1 { // takes the same time whatever was sent
			w.Header().Set("WWW-Authenticate", `Basic realm="limits", charset="UTF-8"`)
			http.Error(w, "Unauthorized", http.StatusUnauthorized)
			return
		}
		pages.ServeHTTP(w, r)
	}), nil
}

// stats returns the state of a store.
func stats(store core.Store) any {
	switch store := store.(type) {
	case *memstore.Store:
		return store.Stats()
	case *redisstore.Store:
		return store.Stats()
	}
	return nil
}

// endpoint is a handler and the address at which it is served.
type endpoint struct {
	addr    string
	handler http.Handler
}

// serveBoth serves the example and the pages for operators until ctx ends or one of them
// cannot be served.
func serveBoth(ctx context.Context, example, pages endpoint, log *slog.Logger) error {
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		defer stop()
		ended <- serve(ctx, pages.addr, pages.handler, log.With("for", "operators"))
	}()
	err := serve(ctx, example.addr, example.handler, log)
	stop()
	return errors.Join(err, <-ended)
}

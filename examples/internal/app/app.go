// Package app is what the example servers have in common, so that each of them
// shows only what its framework does: the limits, the names of clients, the
// answers where no route matches, flags, store, access log and shutdown.
package app

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/keyfuncs"
)

// App holds the limiters of the routes and the key functions of their clients.
type App struct {
	Data, Search, Upload, Status *core.Limiter // per Client, fail-open
	Login                        *core.Limiter // per IP, fail-closed

	Client keyfuncs.Func // the API key in X-API-Key, or else IP
	IP     keyfuncs.Func
}

// New returns an App that counts in store and tells clients apart by ip. log
// hears of decisions that the store could not make, observers of all.
func New(store core.Store, ip keyfuncs.Func, log *slog.Logger, observers ...core.Observer) *App {
	observers = append(observers, core.LogErrors(log, time.Second))
	api := core.Must(core.New(core.Config{
		Name:   "demo",
		Store:  store,
		Limits: []core.Limit{core.PerMinute(100)},
		Observer: core.ObserverFunc(func(ctx context.Context, e core.Event) {
			for _, o := range observers {
				o.Observe(ctx, e)
			}
		}),
	}))
	return &App{
		Data:   api,
		Search: core.Must(api.Rule("search", core.PerMinute(30))),
		Upload: core.Must(api.Rule("upload", core.PerMinute(5))),
		Status: core.Must(api.Rule("status", core.PerMinute(1000))),
		Login:  core.Must(api.Rule("login", core.Per(5, 15*time.Minute))).WithPolicy(core.FailClosed),
		Client: keyfuncs.First(keyfuncs.APIKey("X-API-Key", known), ip),
		IP:     ip,
	}
}

// known stands for a look-up in a cache or database of issued keys.
func known(_ context.Context, key string) (bool, error) {
	return key == "demo-key-1" || key == "demo-key-2", nil
}

// JSON answers every request with body.
func JSON(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { writeJSON(w, http.StatusOK, body) }
}

// allow is the Allow field of every path that has a route.
var allow = map[string]string{
	"/api/data":   "GET, HEAD, OPTIONS",
	"/api/search": "GET, HEAD, OPTIONS",
	"/api/status": "GET, HEAD, OPTIONS",
	"/api/upload": "POST, OPTIONS",
	"/login":      "POST, OPTIONS",
	"/health":     "GET, HEAD, OPTIONS",
	"/ready":      "GET, HEAD, OPTIONS",
}

// NoRoute answers what no route matches, since the frameworks' own answers
// differ: 404, or where the path has a route 405, and 204 to OPTIONS.
func NoRoute(w http.ResponseWriter, r *http.Request) {
	methods, ok := allow[r.URL.Path]
	switch {
	case !ok:
		writeJSON(w, http.StatusNotFound, `{"error":"not found"}`)
	case r.Method == http.MethodOptions:
		w.Header().Set("Allow", methods)
		w.WriteHeader(http.StatusNoContent)
	default:
		w.Header().Set("Allow", methods)
		writeJSON(w, http.StatusMethodNotAllowed, `{"error":"method not allowed"}`)
	}
}

func writeJSON(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body))
}

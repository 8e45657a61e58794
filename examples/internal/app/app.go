// Package app holds the common parts of the example servers: the limits, the names
// of clients, the answers where no route matches, flags, store, access log and
// shutdown. Each example shows only the part that its framework does.
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

	Client keyfuncs.Func // the API key in X-API-Key, or else IP; 10 unknown keys a minute per IP
	IP     keyfuncs.Func // the address of the client

	limiters []*core.Limiter // all of them, for operators
}

// New returns an App that counts in store, which gets timeout for a decision, and tells
// clients apart by ip. Why decisions could not be made is logged to log. The observers get
// all decisions.
func New(
	store core.Store, timeout time.Duration, ip keyfuncs.Func, log *slog.Logger, observers ...core.Observer,
) *App {
	api := core.Must(core.New(core.Config{
		Name:     "demo",
		Store:    store,
		Timeout:  timeout,
		Limits:   []core.Limit{core.PerMinute(100)},
		Observer: core.Observers(append(observers, core.LogErrors(log, time.Second))...),
	}))
	failures := core.Must(api.Rule("apikey-failures", core.PerMinute(10).Named("apikey-failures")))
	apiKey := keyfuncs.APIKey("X-API-Key", identify, keyfuncs.LimitFailures(failures, ip))
	a := &App{
		Data:   api,
		Search: core.Must(api.Rule("search", core.PerMinute(30))),
		Upload: core.Must(api.Rule("upload", core.PerMinute(5))),
		Status: core.Must(api.Rule("status", core.PerMinute(1000).Using(core.CoarseLog))),
		Login:  core.Must(api.Rule("login", core.Per(5, 15*time.Minute))).WithPolicy(core.FailClosed),
		Client: keyfuncs.First(apiKey, ip),
		IP:     ip,
	}
	a.limiters = []*core.Limiter{a.Data, a.Search, a.Upload, a.Status, a.Login, failures}
	return a
}

// identify stands for a look-up in a cache or database of issued keys. It returns
// the owner of the presented key, or an empty id if the key was not issued.
func identify(_ context.Context, presented string) (id string, err error) {
	return map[string]string{"demo-key-1": "customer 1", "demo-key-2": "customer 2"}[presented], nil
}

// JSON returns a handler that answers every request with body.
func JSON(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { writeJSON(w, http.StatusOK, body) }
}

// allow holds the value of the Allow field for every path that has a route.
var allow = map[string]string{
	"/api/data":   "GET, HEAD, OPTIONS",
	"/api/search": "GET, HEAD, OPTIONS",
	"/api/status": "GET, HEAD, OPTIONS",
	"/api/upload": "POST, OPTIONS",
	"/login":      "POST, OPTIONS",
	"/health":     "GET, HEAD, OPTIONS",
	"/ready":      "GET, HEAD, OPTIONS",
}

// NoRoute answers requests that no route matches, since the frameworks' own
// answers differ. It answers 404 if the path has no route, and otherwise 204 to
// OPTIONS and 405 to other methods.
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

// writeJSON writes a response with a body in JSON.
func writeJSON(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body))
}

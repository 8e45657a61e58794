package main

import (
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/keyfuncs"
	"github.com/sashlimit/sash/nethttp"
)

// api returns the API of the example servers, which are whole programs of their own.
func api(store core.Store, log *slog.Logger) http.Handler {
	all := core.Must(core.New(core.Config{
		Name: "demo", Store: store, Limits: []core.Limit{core.PerMinute(100)},
		Observer: core.LogErrors(log, time.Second),
	}))
	upload := core.Must(all.Rule("upload", core.PerMinute(5)))
	login := core.Must(all.Rule("login", core.Per(5, 15*time.Minute))).WithPolicy(core.FailClosed)

	ip := keyfuncs.RemoteIP
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/data", answer(`{"message":"Hello, World!"}`))
	mux.Handle("POST /api/upload", nethttp.Middleware(upload, ip)(answer(`{"status":"uploaded"}`)))
	mux.Handle("POST /login", nethttp.Middleware(login, ip)(answer(`{"status":"welcome"}`)))
	mux.HandleFunc("GET /health", answer(`{"status":"ok"}`))
	return nethttp.Middleware(all, ip, nethttp.SkipPaths("/health"))(mux)
}

func answer(json string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, json)
	}
}

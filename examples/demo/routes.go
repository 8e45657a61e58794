package main

import (
	"net/http"

	"github.com/sashlimit/sash/examples/internal/app"
	"github.com/sashlimit/sash/nethttp"
)

// routes are the same as in examples/nethttp: the other examples are whole programs of their own.
func routes(a *app.App) http.Handler {
	data := nethttp.Middleware(a.Data, a.Client)     // 100 a minute
	search := nethttp.Middleware(a.Search, a.Client) // 30 a minute
	upload := nethttp.Middleware(a.Upload, a.Client) // 5 a minute
	status := nethttp.Middleware(a.Status, a.Client) // 1000 a minute
	login := nethttp.Middleware(a.Login, a.IP)       // 5 in 15 minutes, and never unlimited

	mux := http.NewServeMux() // serves HEAD where GET is
	mux.Handle("GET /api/data", data(app.JSON(`{"message":"Hello, World!"}`)))
	mux.Handle("GET /api/search", search(app.JSON(`{"results":[]}`)))
	mux.Handle("POST /api/upload", upload(app.JSON(`{"status":"uploaded"}`)))
	mux.Handle("GET /api/status", status(app.JSON(`{"status":"ok"}`)))
	mux.Handle("POST /login", login(app.JSON(`{"status":"welcome"}`)))
	mux.Handle("GET /health", app.JSON(`{"status":"ok"}`)) // not limited
	mux.Handle("GET /ready", app.JSON(`{"status":"ok"}`))
	mux.HandleFunc("/", app.NoRoute)
	return mux
}

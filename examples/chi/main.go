// Command chi is the example API on the chi router.
//
//	go run ./examples/chi [-addr 127.0.0.1:8080] [-redis URL] [-trust CIDR,...]
package main

import (
	"net/http"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/sashlimit/sash/chi"
	"github.com/sashlimit/sash/examples/internal/app"
)

func main() { app.Run(routes) }

func routes(a *app.App) http.Handler {
	data := sashchi.Middleware(a.Data, a.Client)     // 100 a minute
	search := sashchi.Middleware(a.Search, a.Client) // 30 a minute
	upload := sashchi.Middleware(a.Upload, a.Client) // 5 a minute
	status := sashchi.Middleware(a.Status, a.Client) // 1000 a minute
	login := sashchi.Middleware(a.Login, a.IP)       // 5 in 15 minutes, and never unlimited

	r := chi.NewRouter()
	r.Use(middleware.GetHead) // serves HEAD where GET is
	r.With(data).Get("/api/data", app.JSON(`{"message":"Hello, World!"}`))
	r.With(search).Get("/api/search", app.JSON(`{"results":[]}`))
	r.With(upload).Post("/api/upload", app.JSON(`{"status":"uploaded"}`))
	r.With(status).Get("/api/status", app.JSON(`{"status":"ok"}`))
	r.With(login).Post("/login", app.JSON(`{"status":"welcome"}`))
	r.Get("/health", app.JSON(`{"status":"ok"}`)) // not limited
	r.Get("/ready", app.JSON(`{"status":"ok"}`))
	r.NotFound(app.NoRoute)
	r.MethodNotAllowed(app.NoRoute)
	return r
}

// Command echo5 is the example API on echo v5.
//
//	go run ./examples/echo5 [-addr 127.0.0.1:8080] [-redis URL] [-trust CIDR,...]
package main

import (
	"net/http"

	"github.com/labstack/echo/v5"

	"github.com/sashlimit/sash/echo5"
	"github.com/sashlimit/sash/examples/internal/app"
)

func main() { app.Run(routes) }

func routes(a *app.App) http.Handler {
	data := sashecho5.Middleware(a.Data, a.Client)     // 100 a minute
	search := sashecho5.Middleware(a.Search, a.Client) // 30 a minute
	upload := sashecho5.Middleware(a.Upload, a.Client) // 5 a minute
	status := sashecho5.Middleware(a.Status, a.Client) // 1000 a minute
	login := sashecho5.Middleware(a.Login, a.IP)       // 5 in 15 minutes, and never unlimited
	get := []string{http.MethodGet, http.MethodHead}

	e := echo.New() // app.Run serves it, so there is no banner
	e.Match(get, "/api/data", json(`{"message":"Hello, World!"}`), data)
	e.Match(get, "/api/search", json(`{"results":[]}`), search)
	e.POST("/api/upload", json(`{"status":"uploaded"}`), upload)
	e.Match(get, "/api/status", json(`{"status":"ok"}`), status)
	e.POST("/login", json(`{"status":"welcome"}`), login)
	e.Match(get, "/health", json(`{"status":"ok"}`)) // not limited
	e.Match(get, "/ready", json(`{"status":"ok"}`))
	e.RouteNotFound("/*", echo.WrapHandler(http.HandlerFunc(app.NoRoute))) // other methods too
	return e
}

func json(body string) echo.HandlerFunc { return echo.WrapHandler(app.JSON(body)) }

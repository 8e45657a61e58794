// Command gin is the example API on the gin framework.
//
//	go run ./examples/gin [-addr 127.0.0.1:8080] [-redis URL] [-trust CIDR,...]
package main

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/sashlimit/sash/examples/internal/app"
	"github.com/sashlimit/sash/gin"
)

func main() { app.Run(routes) }

func routes(a *app.App) http.Handler {
	data := sashgin.Middleware(a.Data, a.Client)     // 100 a minute
	search := sashgin.Middleware(a.Search, a.Client) // 30 a minute
	upload := sashgin.Middleware(a.Upload, a.Client) // 5 a minute
	status := sashgin.Middleware(a.Status, a.Client) // 1000 a minute
	login := sashgin.Middleware(a.Login, a.IP)       // 5 in 15 minutes, and never unlimited
	get := []string{http.MethodGet, http.MethodHead}

	gin.SetMode(gin.ReleaseMode)
	e := gin.New()                // the access log is the app's
	e.ForwardedByClientIP = false // nothing here asks c.ClientIP()
	e.Match(get, "/api/data", data, json(`{"message":"Hello, World!"}`))
	e.Match(get, "/api/search", search, json(`{"results":[]}`))
	e.POST("/api/upload", upload, json(`{"status":"uploaded"}`))
	e.Match(get, "/api/status", status, json(`{"status":"ok"}`))
	e.POST("/login", login, json(`{"status":"welcome"}`))
	e.Match(get, "/health", json(`{"status":"ok"}`)) // not limited
	e.Match(get, "/ready", json(`{"status":"ok"}`))
	e.NoRoute(gin.WrapF(app.NoRoute))
	return e
}

func json(body string) gin.HandlerFunc { return gin.WrapF(app.JSON(body)) }

package main

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/sashlimit/sash/gin"
	"github.com/sashlimit/sash/keyfuncs"
)

// ginRoutes returns the API for gin. Only the routes differ: limits, keys, options and refusals are as for net/http.
func (s service) ginRoutes() http.Handler {
	gin.SetMode(gin.ReleaseMode)
	e := gin.New()
	e.Use(gin.Recovery())
	e.GET("/health", gin.WrapF(answer(`{"status":"ok"}`)))
	e.POST("/login", sashgin.Middleware(s.login, keyfuncs.RemoteIP, s.failed, s.refusal), gin.WrapF(logIn))
	v1 := e.Group("/v1", sashgin.Middleware(s.api, s.client, s.planned...))
	v1.GET("/items", gin.WrapF(answer(`{"items":[]}`)))
	exports := v1.Group("/exports", sashgin.Middleware(s.exports, s.client, s.refusal))
	exports.GET("/:id", gin.WrapF(answer(`{"export":"done"}`)))
	return e
}

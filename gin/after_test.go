package sashgin_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/gin"
	"github.com/sashlimit/sash/internal/fakeclock"
	"github.com/sashlimit/sash/keyfuncs"
	"github.com/sashlimit/sash/nethttp"
)

// CountWhen is asked about the status that the client gets, although gin sends it when all
// handlers have returned.
func TestCountWhenStatus(t *testing.T) {
	recovery, panics := gin.RecoveryWithWriter(io.Discard), func(*gin.Context) { panic("handler") }
	for _, c := range []struct {
		name    string
		outer   []gin.HandlerFunc
		handler []gin.HandlerFunc
		status  int
	}{
		{"Status", nil, []gin.HandlerFunc{func(c *gin.Context) { c.Status(401) }}, 401},
		{"AbortWithError", nil, []gin.HandlerFunc{func(c *gin.Context) {
			_ = c.AbortWithError(401, errors.New("wrong"))
		}, ok}, 401},
		{"an error alone", nil, []gin.HandlerFunc{func(c *gin.Context) { _ = c.Error(errors.New("wrong")) }}, 200},
		{"a middleware that answers errors", nil, []gin.HandlerFunc{
			func(c *gin.Context) {
				c.Next()
				if len(c.Errors) > 0 {
					c.JSON(401, gin.H{})
				}
			},
			func(c *gin.Context) { _ = c.Error(errors.New("wrong")) },
		}, 401},
		{"a status that changes", nil, []gin.HandlerFunc{func(c *gin.Context) { c.Status(401); c.Status(201) }}, 201},
		{"recovered outside", []gin.HandlerFunc{recovery}, []gin.HandlerFunc{panics}, 500},
		{"recovered inside", nil, []gin.HandlerFunc{recovery, panics}, 500},
		{"no route", nil, nil, 404},
	} {
		var asked []int
		e := gin.New()
		e.Use(c.outer...)
		e.Use(sashgin.Middleware(fakeclock.Limiter(core.PerMinute(1)), keyfuncs.AllClients,
			nethttp.CountWhen(func(_ *http.Request, status int) bool {
				asked = append(asked, status)
				return false
			})))
		if c.handler != nil {
			e.GET("/", c.handler...)
		}
		for range 2 { // the second passes a limit of 1
			w := fakeclock.Get(e, "/")
			if w.Code != c.status || !slices.Equal(asked, []int{c.status}) {
				t.Errorf("%s: got %d for the client and %v for CountWhen, want %d", c.name, w.Code, asked, c.status)
			}
			asked = nil
		}
	}
}

// A status that is set and not sent says nothing about a request whose client has left
// when its handler panics: it stays counted.
func TestPanicOfClientThatLeft(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	e := gin.New()
	e.Use(gin.RecoveryWithWriter(io.Discard), sashgin.Middleware(fakeclock.Limiter(core.PerMinute(1)), keyfuncs.AllClients,
		nethttp.CountWhen(func(*http.Request, int) bool { return false })))
	e.GET("/", func(c *gin.Context) { c.Status(401); leave(); panic(http.ErrAbortHandler) })
	e.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil).WithContext(ctx))
	if w := fakeclock.Get(e, "/"); w.Code != 429 {
		t.Errorf("the next request: got %d, want 429", w.Code)
	}
}

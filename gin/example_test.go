package sashgin_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/gin-gonic/gin"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/gin"
	"github.com/sashlimit/sash/keyfuncs"
)

func hello(c *gin.Context) { c.String(http.StatusOK, "hello") }

// show prints what a client sees of its limit.
func show(h http.Handler, method, path string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
	limit, left := w.Header().Get("X-RateLimit-Limit"), w.Header().Get("X-RateLimit-Remaining")
	if limit == "" {
		fmt.Println(method, path, w.Code)
		return
	}
	fmt.Println(method, path, w.Code, "with", left, "of", limit, "left")
}

// An earlier handler names the client.
func ExampleMiddlewareBy() {
	api := core.Must(core.New(core.Config{Name: "api", Store: memstore.New(), Limits: []core.Limit{core.PerMinute(2)}}))
	byUser := func(c *gin.Context) (string, error) {
		user := c.GetString("user")
		if user == "" {
			return "", keyfuncs.ErrNoKey
		}
		return "user:" + user, nil
	}

	r := gin.New()
	r.Use(func(c *gin.Context) { c.Set("user", c.Query("as")) }) // stands for your authentication
	r.Use(sashgin.MiddlewareBy(api, byUser))
	r.GET("/", hello)

	show(r, "GET", "/?as=alice")
	show(r, "GET", "/?as=alice")
	show(r, "GET", "/?as=bob")
	show(r, "GET", "/")
	// Output:
	// GET /?as=alice 200 with 1 of 2 left
	// GET /?as=alice 200 with 0 of 2 left
	// GET /?as=bob 200 with 1 of 2 left
	// GET / 400
}

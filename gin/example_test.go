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
	"github.com/sashlimit/sash/nethttp"
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

// A limit for a group of routes, and a tighter one for a route inside it. Both
// hold, and the client reads about the inner one.
func ExampleMiddleware() {
	api := core.Must(core.New(core.Config{
		Name: "api", Store: memstore.New(), Limits: []core.Limit{core.PerMinute(100)},
	}))
	search := core.Must(api.Rule("search", core.PerMinute(10)))

	r := gin.New()
	r.GET("/health", hello) // not limited
	g := r.Group("/api", sashgin.Middleware(api, keyfuncs.RemoteIP))
	g.GET("/items/:id", hello) // one count, whatever the id
	g.GET("/search", sashgin.Middleware(search, keyfuncs.RemoteIP), hello)

	show(r, "GET", "/api/items/1")
	show(r, "GET", "/api/items/2")
	show(r, "GET", "/api/search")
	show(r, "GET", "/health")
	// Output:
	// GET /api/items/1 200 with 99 of 100 left
	// GET /api/items/2 200 with 98 of 100 left
	// GET /api/search 200 with 9 of 10 left
	// GET /health 200
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

// A refusal in the API's own form.
func ExampleWithRefusal() {
	api := core.Must(core.New(core.Config{Name: "api", Store: memstore.New(), Limits: []core.Limit{core.PerMinute(1)}}))
	refuse := func(c *gin.Context, d core.Decision) {
		c.JSON(nethttp.Status(d), gin.H{"error": "slow down", "limit": d.Limit.Requests})
	}

	r := gin.New()
	r.Use(sashgin.Middleware(api, keyfuncs.RemoteIP, sashgin.WithRefusal(refuse)))
	r.GET("/", hello)

	for range 2 {
		w := httptest.NewRecorder()
		r.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		fmt.Println(w.Code, w.Body)
	}
	// Output:
	// 200 hello
	// 429 {"error":"slow down","limit":1}
}

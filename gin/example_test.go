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
	"github.com/sashlimit/sash/nethttp/adapter"
)

func hello(c *gin.Context) { c.String(http.StatusOK, "hello") }

func show(h http.Handler, paths ...string) {
	for _, path := range paths {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		fmt.Printf("%s %d %q\n", path, w.Code, w.Header().Get("X-RateLimit-Remaining"))
	}
}

func ExampleLimitByIP() {
	r := gin.New()
	r.Use(sashgin.LimitByIP(core.PerHour(1)))
	r.GET("/", hello)
	show(r, "/", "/")
	// Output:
	// / 200 "0"
	// / 429 "0"
}

func ExampleMiddleware() {
	api := core.Must(core.New(core.Config{Name: "api", Store: memstore.New(), Limits: []core.Limit{core.PerHour(100)}}))
	search := core.Must(api.Rule("search", core.PerHour(10))) // has a count of its own

	r := gin.New()
	r.Use(sashgin.Middleware(api, keyfuncs.RemoteIP, nethttp.SkipPaths("/health"))) // before the routes
	r.GET("/items/:id", hello)
	r.GET("/search", sashgin.Middleware(search, keyfuncs.RemoteIP), hello)
	r.GET("/health", hello)
	show(r, "/items/1", "/items/2", "/search", "/health")
	// Output:
	// /items/1 200 "99"
	// /items/2 200 "98"
	// /search 200 "9"
	// /health 200 ""
}

func ExampleWithRefusal() {
	api := core.Must(core.New(core.Config{Name: "api", Store: memstore.New(), Limits: []core.Limit{core.PerHour(1)}}))
	refuse := sashgin.WithRefusal(func(c *gin.Context, d core.Decision) { c.String(nethttp.Status(d), "slow down") })
	r := gin.New()
	r.Use(sashgin.Middleware(api, keyfuncs.RemoteIP, refuse))
	r.GET("/", hello)
	for range 2 {
		w := httptest.NewRecorder()
		r.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		fmt.Println(w.Code, w.Body)
	}
	// Output:
	// 200 hello
	// 429 slow down
}

// An earlier handler names the client and its plan.
func ExampleMiddlewareBy() {
	api := core.Must(core.New(core.Config{Name: "api", Store: memstore.New(), Limits: []core.Limit{core.PerMinute(2)}}))
	byUser := func(c *gin.Context) (string, error) {
		user := c.GetString("user")
		if user == "" {
			return "", keyfuncs.ErrNoKey
		}
		return "user:" + user, nil
	}

	pro := core.Must(api.WithLimits(core.PerMinute(100)))
	byPlan := adapter.WithLimiter(func(c *gin.Context, key string) (*core.Limiter, error) {
		if c.GetString("plan") == "pro" {
			return pro, nil
		}
		return nil, nil // api
	})

	r := gin.New()
	r.Use(func(c *gin.Context) { c.Set("user", c.Query("as")); c.Set("plan", c.Query("plan")) }) // your authentication
	r.Use(sashgin.MiddlewareBy(api, byUser, byPlan))
	r.GET("/", hello)

	show(r, "/?as=alice", "/?as=alice", "/?as=bob&plan=pro", "/")
	// Output:
	// /?as=alice 200 "1"
	// /?as=alice 200 "0"
	// /?as=bob&plan=pro 200 "99"
	// / 400 ""
}

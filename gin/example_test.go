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
	"github.com/sashlimit/sash/nethttp/adapter"
)

func hello(c *gin.Context) { c.String(http.StatusOK, "hello") }

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

	for _, path := range []string{"/?as=alice", "/?as=alice", "/?as=bob&plan=pro", "/"} {
		w := httptest.NewRecorder()
		r.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		fmt.Printf("%s %d %q\n", path, w.Code, w.Header().Get("X-RateLimit-Remaining"))
	}
	// Output:
	// /?as=alice 200 "1"
	// /?as=alice 200 "0"
	// /?as=bob&plan=pro 200 "99"
	// / 400 ""
}

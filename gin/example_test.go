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

	for _, path := range []string{"/?as=alice", "/?as=alice", "/?as=bob", "/"} {
		w := httptest.NewRecorder()
		r.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		fmt.Printf("%s %d %q\n", path, w.Code, w.Header().Get("X-RateLimit-Remaining"))
	}
	// Output:
	// /?as=alice 200 "1"
	// /?as=alice 200 "0"
	// /?as=bob 200 "1"
	// / 400 ""
}

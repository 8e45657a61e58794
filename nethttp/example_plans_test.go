package nethttp_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/keyfuncs"
	"github.com/sashlimit/sash/nethttp"
)

// Each client has the number that a database has for it.
func ExampleWithLimits() {
	api := core.Must(core.New(core.Config{
		Name: "api", Store: memstore.New(), Limits: []core.Limit{core.PerHour(2)},
	}))
	numbers := map[string]int64{"header:x-client:ann": 5}
	byNumber := nethttp.WithLimits(func(_ *http.Request, key string) ([]core.Limit, error) {
		switch n, known := numbers[key]; {
		case !known:
			return nil, nil // those of api
		case n < 0:
			return nil, errors.New("the account is closed") // logged, and the policy of api decides
		default:
			return []core.Limit{core.PerHour(n)}, nil
		}
	})
	handler := nethttp.Middleware(api, keyfuncs.Header("X-Client"), byNumber)(hello)

	for _, client := range []string{"ann", "bob"} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("X-Client", client)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		fmt.Println(client, w.Code, w.Header().Get("X-RateLimit-Remaining"), "of", w.Header().Get("X-RateLimit-Limit"))
	}
	// Output:
	// ann 200 4 of 5
	// bob 200 1 of 2
}

package httpclient_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/extra/httpclient"
)

// A client that sends each host at most 10 requests a second, and leaves a server alone for
// as long as that asks.
func ExampleNewTransport() {
	busy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "120")
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	defer busy.Close()

	limiter := core.Must(core.New(core.Config{Store: memstore.New(), Limits: []core.Limit{core.PerSecond(10)}}))
	transport := core.Must(httpclient.NewTransport(limiter, httpclient.ByHost, http.DefaultTransport))
	client := &http.Client{Transport: transport, Timeout: 5 * time.Second}
	for range 2 {
		response, err := client.Get(busy.URL)
		if refused, ok := errors.AsType[*httpclient.Error](err); ok {
			wait := refused.Decision.RetryAfter.Round(time.Second)
			fmt.Println("not sent:", errors.Is(err, httpclient.ErrPaused), wait)
			continue
		} else if err != nil {
			fmt.Println(err)
			continue
		}
		response.Body.Close()
		fmt.Println(response.Status)
	}
	// Output:
	// 429 Too Many Requests
	// not sent: true 2m0s
}

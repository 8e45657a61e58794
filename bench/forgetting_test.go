package bench

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/labstack/echo/v4/middleware"
	"github.com/throttled/throttled/v2"
	throttledmem "github.com/throttled/throttled/v2/store/memstore"
	"golang.org/x/time/rate"

	"github.com/sashlimit/sash/core/memstore"
)

// TestFloodOfClients: a client has used up its limit, and then many others come. By default
// no library forgets the client: but for sash they all grow. throttled does forget it if it
// is told to keep no more than so many keys.
func TestFloodOfClients(t *testing.T) {
	const others = 20_000
	bounded := library{"throttled, at most 10,000 keys", false, func(l load, next http.Handler) (http.Handler, error) {
		store, err := throttledmem.NewCtx(10_000)
		if err != nil {
			return nil, err
		}
		limiter, err := throttled.NewGCRARateLimiterCtx(store, l.gcra())
		guard := throttled.HTTPRateLimiterCtx{RateLimiter: limiter, VaryBy: &throttled.VaryBy{RemoteAddr: true}}
		return guard.RateLimit(next), err
	}}
	for _, l := range append(peerLibraries(), bounded) {
		var through served
		// The room is for a tenth of the clients; only sash's stores look at it.
		visit, err := visitor(l, load{requests: 1, room: memstore.MinMaxBytes}, &through)
		if err != nil {
			t.Fatal(err)
		}
		for i := range others {
			visit(address(i))
		}
		through = 0
		visit(address(0))
		if forgotten, want := through == 1, l.name == bounded.name; forgotten != want {
			t.Errorf("%s: the client is let in again: %v, want %v", l.name, forgotten, want)
		}
	}
}

// TestEchoForgets: echo's store of v4 forgets a client that was quiet for three minutes,
// unless ExpiresIn says otherwise, and with it a limit of an hour.
func TestEchoForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := middleware.NewRateLimiterMemoryStoreWithConfig(middleware.RateLimiterMemoryStoreConfig{
			Rate: rate.Limit(load{requests: 1}.perSecond()), Burst: 1,
		})
		for _, c := range []struct {
			client string
			want   bool
		}{{"a", true}, {"a", false}, {"b", true}, {"a", true}} {
			if c.client == "b" {
				time.Sleep(4 * time.Minute)
			}
			if ok, err := store.Allow(c.client); ok != c.want || err != nil {
				t.Errorf("%s: %v, %v, want %v", c.client, ok, err, c.want)
			}
		}
	})
}

package sashadmin_test

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/extra/heavyhitters"
	"github.com/sashlimit/sash/extra/sashadmin"
)

// withPassword lets requests through that have the name and the password. Comparing hashes
// takes the same time whatever was sent. Serve it over TLS.
func withPassword(name, password string, next http.Handler) http.Handler {
	wantName, wantPassword := sha256.Sum256([]byte(name)), sha256.Sum256([]byte(password))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, p, _ := r.BasicAuth()
		gotName, gotPassword := sha256.Sum256([]byte(n)), sha256.Sum256([]byte(p))
		sameName := subtle.ConstantTimeCompare(gotName[:], wantName[:])
		samePassword := subtle.ConstantTimeCompare(gotPassword[:], wantPassword[:])
		if sameName&samePassword != 1 {
			w.Header().Set("WWW-Authenticate", `Basic realm="limits", charset="UTF-8"`)
			http.Error(w, "Unauthorized", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func Example() {
	store := memstore.New()
	heavy, refusals := core.Must(heavyhitters.New(20)), new(sashadmin.Refusals)
	api := core.Must(core.New(core.Config{
		Name: "api", Store: store, Limits: []core.Limit{core.PerMinute(100)},
		Observer: core.Observers(heavy, refusals, core.Silent), // or core.LogErrors
	}))
	login := core.Must(api.Rule("login", core.Per(5, 15*time.Minute))).WithPolicy(core.FailClosed)

	admin, err := sashadmin.New(sashadmin.Config{
		Limiters: []*core.Limiter{api, login},
		Heaviest: heavy,
		Refusals: refusals,
		Stores:   map[string]func() any{"memory": func() any { return store.Stats() }},
	})
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux() // of a listener that the public does not reach
	mux.Handle("/limits/", withPassword("admin", "a long one, from a secret store", http.StripPrefix("/limits", admin)))

	for range 6 {
		login.Allow(context.Background(), "ip:198.51.100.7")
	}
	for _, password := range []string{"a guess", "a long one, from a secret store"} {
		r := httptest.NewRequest("POST", "/limits/reset.json?ip=198.51.100.7&limiter=api&rule=login", nil)
		r.SetBasicAuth("admin", password)
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		fmt.Println(w.Code, "and the client may go on:", login.Peek(context.Background(), "ip:198.51.100.7").Allowed)
	}
	// Output:
	// 401 and the client may go on: false
	// 200 and the client may go on: true
}

package bench

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"
)

// visits returns a function that sends requests of one client through a handler.
func visits(h http.Handler, client int) func() bool {
	return func() bool {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = address(client)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code == http.StatusOK
	}
}

// TestLibraries: each middleware lets through as many requests of a client as its limit says.
func TestLibraries(t *testing.T) {
	for _, l := range slices.Concat(libraries(), echoLibraries(), echo5Libraries()) {
		var through served
		h, err := l.wrap(perHour(3), &through)
		if err != nil {
			t.Fatal(err)
		}
		a, b := visits(h, 1), visits(h, 2)
		want := []bool{true, true, true, false, true, false}
		if got := []bool{a(), a(), a(), a(), b(), a()}; !slices.Equal(got, want) ||
			through != 4 {
			t.Errorf("%s admits %v, and %d reach the handler", l.name, got, through)
		}
	}
}

// TestDeciders: each decider does likewise.
func TestDeciders(t *testing.T) {
	for _, d := range deciders() {
		allow, err := d.open(perHour(3))
		if err != nil {
			t.Fatal(err)
		}
		for i := range 4 {
			for _, key := range []string{"a", "b"} {
				if ok, err := allow(key); err != nil || ok != (i < 3) {
					t.Errorf("%s: request %d of %s: %v, %v", d.name, i, key, ok, err)
				}
			}
		}
	}
}

// TestRemotes: each limiter does likewise on a server and on a cluster.
func TestRemotes(t *testing.T) {
	for _, env := range []Env{single(t), threeMasters(t)} {
		rdb := redis.NewUniversalClient(&redis.UniversalOptions{Addrs: env.Redis})
		defer rdb.Close()
		for _, remote := range remotes() {
			decide, err := remote.open(rdb, perHour(3))
			if err != nil {
				t.Fatal(err)
			}
			for i, want := range []error{nil, nil, nil, errRefused, errRefused} {
				if got := decide(remote.name); !errors.Is(got, want) {
					t.Errorf("%s: request %d: %v, want %v", remote.name, i, got, want)
				}
			}
			if err := decide("another " + remote.name); err != nil {
				t.Errorf("%s: another client: %v", remote.name, err)
			}
		}
	}
}

// TestScenesAreChecked: a batch of requests of which one is admitted or refused against the scene's rule gives an
// error, not a time.
func TestScenesAreChecked(t *testing.T) {
	for _, refused := range []bool{false, true} {
		work, err := scene{"", 1, refused, perHour(5)}.open(libraries()[0])(Env{})
		if err != nil {
			t.Fatal(err)
		}
		// open sent two requests, so a limit of 5 admits three of these.
		if err := work.do(10); err == nil {
			t.Errorf("refused %v: no error, want one", refused)
		}
	}
}

package keyfuncs_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/sashlimit/sash/keyfuncs"
)

// request returns a request from peer with header lines such as "Name: value".
func request(peer string, headerLines ...string) *http.Request {
	r := &http.Request{Method: "GET", RemoteAddr: peer, Header: http.Header{}}
	for _, line := range headerLines {
		name, value, _ := strings.Cut(line, ":")
		r.Header.Add(name, strings.TrimPrefix(value, " "))
	}
	return r
}

// mustKey fails unless f names r.
func mustKey(t testing.TB, f keyfuncs.Func, r *http.Request) string {
	t.Helper()
	key, err := f(r)
	if key == "" || err != nil {
		t.Fatalf("key %q, error %v; want a key", key, err)
	}
	return key
}

// wantNoKey fails unless f returns ErrNoKey for r. It returns the error.
func wantNoKey(t testing.TB, f keyfuncs.Func, r *http.Request) error {
	t.Helper()
	key, err := f(r)
	if key != "" || !errors.Is(err, keyfuncs.ErrNoKey) {
		t.Fatalf("key %q, error %v; want no key and ErrNoKey", key, err)
	}
	return err
}

// mustPanic fails unless f panics with a text that has all the words.
func mustPanic(t *testing.T, f func(), words ...string) {
	t.Helper()
	defer func() {
		t.Helper()
		text := fmt.Sprint(recover())
		for _, word := range append(words, "sash: ") {
			if !strings.Contains(text, word) {
				t.Errorf("the panic is %s, want one with %q", text, word)
			}
		}
	}()
	f()
}

// wantAllocs fails unless f names r with exactly the wanted number of allocations.
func wantAllocs(t *testing.T, want float64, f keyfuncs.Func, r *http.Request) {
	t.Helper()
	mustKey(t, f, r)
	if got := testing.AllocsPerRun(100, func() { _, _ = f(r) }); got != want {
		t.Errorf("%v allocations, want %v", got, want)
	}
}

// known is the verifier that the tests use: each key is its own identity.
var known = keyfuncs.VerifyFunc(func(_ context.Context, key string) (bool, error) {
	return key == "demo-key-1" || key == "demo-key-2", nil
})

// wantBadRequest fails unless f refuses r and First does not go on to the next
// function. It returns the error.
func wantBadRequest(t testing.TB, f keyfuncs.Func, r *http.Request) error {
	t.Helper()
	key, err := keyfuncs.First(f, gives("another"))(r)
	if key != "" || !errors.Is(err, keyfuncs.ErrBadRequest) || errors.Is(err, keyfuncs.ErrNoKey) {
		t.Fatalf("key %q, error %v; want no key and ErrBadRequest", key, err)
	}
	return err
}

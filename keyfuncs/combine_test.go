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

var errLookup = errors.New("lookup failed")

func gives(key string) keyfuncs.Func { return answers(key, nil) }

func answers(key string, err error) keyfuncs.Func {
	return func(*http.Request) (string, error) { return key, err }
}

var (
	noKey   = answers("", fmt.Errorf("wrapped: %w", keyfuncs.ErrNoKey))
	empty   = answers("", nil)
	failing = answers("", errLookup)
	sloppy  = answers("user:42", errLookup) // a key beside an error does not count
)

// TestCombine: what First and Join make of keys and errors.
func TestCombine(t *testing.T) {
	type funcs []keyfuncs.Func
	first, join := keyfuncs.First, keyfuncs.Join
	for _, test := range []struct {
		name    string
		combine func(...keyfuncs.Func) keyfuncs.Func
		funcs   funcs
		key     string
		err     error
	}{
		{"the first", first, funcs{gives("a"), gives("b")}, "a", nil},
		{"goes on at ErrNoKey", first, funcs{noKey, noKey, gives("b"), gives("c")}, "b", nil},
		{"goes on at an empty key", first, funcs{empty, gives("b")}, "b", nil},
		{"stops at another error", first, funcs{noKey, failing, gives("b")}, "", errLookup},
		{"does not reach an error", first, funcs{gives("a"), failing}, "a", nil},
		{"an error beats its key", first, funcs{sloppy, gives("b")}, "", errLookup},
		{"none", first, funcs{empty, noKey}, "", keyfuncs.ErrNoKey},
		{"none, the last is empty", first, funcs{noKey, empty}, "", keyfuncs.ErrNoKey},
		{"inside another", first, funcs{keyfuncs.First(noKey, empty), keyfuncs.First(noKey, gives("b"))}, "b", nil},

		{"joined, two", join, funcs{gives("user:42"), keyfuncs.RemoteIP}, "join:user:42|ip:198.51.100.7", nil},
		{"joined, one", join, funcs{gives("user:42")}, "join:user:42", nil},
		{"joined, escaped", join, funcs{gives(`a|b\`), gives(`\|`)}, `join:a\|b\\|\\\|`, nil},
		{"joined, one is missing", join, funcs{gives("a"), noKey, failing}, "", keyfuncs.ErrNoKey},
		{"joined, one is empty", join, funcs{gives("a"), empty}, "", keyfuncs.ErrNoKey},
		{"joined, one fails", join, funcs{gives("a"), failing, noKey}, "", errLookup},
		{"joined, an error beats its key", join, funcs{sloppy, gives("b")}, "", errLookup},
	} {
		key, err := test.combine(test.funcs...)(request("198.51.100.7:1"))
		if key != test.key || !errors.Is(err, test.err) {
			t.Errorf("%s: %q, %v; want %q, %v", test.name, key, err, test.key, test.err)
		}
	}
	_, err := keyfuncs.First(noKey, keyfuncs.RemoteIP)(request("@"))
	if err == nil || !strings.Contains(err.Error(), `"@"`) {
		t.Errorf("not the error of the last: %v", err)
	}
}

// TestFirstKeepsUnauthenticated: where no function names the client, the error of a missing API key is found, wherever
// it stands, and so is the last one's text. An error that ends First is returned alone.
func TestFirstKeepsUnauthenticated(t *testing.T) {
	never := keyfuncs.VerifyFunc(func(context.Context, string) (bool, error) { return false, nil })
	apiKey := keyfuncs.APIKey("X-API-Key", never)
	other := answers("", &keyfuncs.UnauthenticatedError{Challenge: "Other", Reason: "no ticket"})
	tenant := keyfuncs.Header("X-Tenant")
	const bearer = `Bearer realm="API key"`
	for name, test := range map[string]struct {
		f               keyfuncs.Func
		challenge, text string
	}{
		"last":        {keyfuncs.First(tenant, apiKey), bearer, "X-Api-Key is missing"},
		"first":       {keyfuncs.First(apiKey, tenant), bearer, "X-Tenant is missing"},
		"nested":      {keyfuncs.First(keyfuncs.First(apiKey, tenant), noKey), bearer, "wrapped: no key"},
		"two":         {keyfuncs.First(other, tenant, apiKey), "Other", "X-Api-Key is missing"},
		"joined":      {keyfuncs.Join(keyfuncs.RemoteIP, apiKey), bearer, "X-Api-Key is missing"},
		"header only": {keyfuncs.APIKey("X-A", never, keyfuncs.HeaderOnly()), `ApiKey realm="X-A"`, "X-A is missing"},
		"fails":       {keyfuncs.First(apiKey, failing), "", "lookup"},
		"another":     {keyfuncs.First(tenant, noKey), "", ""},
	} {
		_, err := test.f(request("198.51.100.7:1234"))
		found, _ := errors.AsType[*keyfuncs.UnauthenticatedError](err)
		if found == nil {
			found = new(keyfuncs.UnauthenticatedError)
		}
		if found.Challenge != test.challenge || !strings.Contains(err.Error(), test.text) ||
			strings.Count(err.Error(), "sash: ") > 1 {
			t.Errorf("%s: got %q of %v, want %q and %q", name, found.Challenge, err, test.challenge, test.text)
		}
	}
}

func TestCombinePanicsOnMisuse(t *testing.T) {
	for name, combine := range map[string]func(...keyfuncs.Func) keyfuncs.Func{
		"First": keyfuncs.First, "Join": keyfuncs.Join,
	} {
		mustPanic(t, func() { combine() }, name, "no functions", "keyfuncs.RemoteIP")
		mustPanic(t, func() { combine(keyfuncs.RemoteIP, nil) }, name, "function 2 of 2 is nil")

		funcs := []keyfuncs.Func{gives("a")}
		f := combine(funcs...)
		want := mustKey(t, f, request(""))
		funcs[0] = nil // must not reach f
		if got := mustKey(t, f, request("")); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

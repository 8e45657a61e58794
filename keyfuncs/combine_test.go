package keyfuncs_test

import (
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

func TestFirst(t *testing.T) {
	r := request("198.51.100.7:1")
	for _, test := range []struct {
		name  string
		funcs []keyfuncs.Func
		key   string
		err   error
	}{
		{"the first", []keyfuncs.Func{gives("a"), gives("b")}, "a", nil},
		{"goes on at ErrNoKey", []keyfuncs.Func{noKey, noKey, gives("b"), gives("c")}, "b", nil},
		{"goes on at an empty key", []keyfuncs.Func{empty, gives("b")}, "b", nil},
		{"stops at another error", []keyfuncs.Func{noKey, failing, gives("b")}, "", errLookup},
		{"does not reach an error", []keyfuncs.Func{gives("a"), failing}, "a", nil},
		{"an error beats its key", []keyfuncs.Func{sloppy, gives("b")}, "", errLookup},
		{"none", []keyfuncs.Func{empty, noKey}, "", keyfuncs.ErrNoKey},
		{"none, the last is empty", []keyfuncs.Func{noKey, empty}, "", keyfuncs.ErrNoKey},
		{"inside another", []keyfuncs.Func{keyfuncs.First(noKey, empty), keyfuncs.First(noKey, gives("b"))}, "b", nil},
	} {
		key, err := keyfuncs.First(test.funcs...)(r)
		if key != test.key || !errors.Is(err, test.err) {
			t.Errorf("%s: %q, %v; want %q, %v", test.name, key, err, test.key, test.err)
		}
	}
	_, err := keyfuncs.First(noKey, keyfuncs.RemoteIP)(request("@"))
	if err == nil || !strings.Contains(err.Error(), `"@"`) {
		t.Errorf("not the error of the last: %v", err)
	}
}

// A header that looks like a joined key is not one.
func TestFirstOfJoinAndHeader(t *testing.T) {
	tenant := keyfuncs.Header("X-Tenant")
	f := keyfuncs.First(keyfuncs.Join(tenant, keyfuncs.UserID(user)), tenant)
	forged := mustKey(t, f, request("", "X-Tenant: acme|user:42"))
	for _, parts := range [][]string{{"header:x-tenant:acme", "user:42"}, {"header:x-tenant:acme|user:42"}} {
		if forged == keyfuncs.JoinString(parts...) {
			t.Errorf("%q is %q", parts, forged)
		}
	}
}

// A client without an API key, or with an invented one, is limited by address.
func TestFirstAPIKeyThenIP(t *testing.T) {
	f := keyfuncs.First(keyfuncs.APIKey("X-API-Key", known), keyfuncs.RemoteIP)
	for header, want := range map[string]string{
		"X-API-Key: demo-key-1": keyfuncs.APIKeyString("demo-key-1"),
		"X-API-Key: invented":   "ip:198.51.100.7",
		"X-Other: none":         "ip:198.51.100.7",
	} {
		if got := mustKey(t, f, request("198.51.100.7:1", header)); got != want {
			t.Errorf("%s: %s, want %s", header, got, want)
		}
	}
	wantAllocs(t, 1, f, request("198.51.100.7:1"))
}

func TestJoin(t *testing.T) {
	r := request("198.51.100.7:1")
	for _, test := range []struct {
		name  string
		funcs []keyfuncs.Func
		key   string
		err   error
	}{
		{"two", []keyfuncs.Func{gives("user:42"), keyfuncs.RemoteIP}, "join:user:42|ip:198.51.100.7", nil},
		{"one", []keyfuncs.Func{gives("user:42")}, "join:user:42", nil},
		{"six", []keyfuncs.Func{gives("a"), gives("b"), gives("c"), gives("d"), gives("e"), gives("f")},
			"join:a|b|c|d|e|f", nil},
		{"escaped", []keyfuncs.Func{gives(`a|b\`), gives(`\|`)}, `join:a\|b\\|\\\|`, nil},
		{"one is missing", []keyfuncs.Func{gives("a"), noKey, failing}, "", keyfuncs.ErrNoKey},
		{"one is empty", []keyfuncs.Func{gives("a"), empty}, "", keyfuncs.ErrNoKey},
		{"one fails", []keyfuncs.Func{gives("a"), failing, noKey}, "", errLookup},
		{"an error beats its key", []keyfuncs.Func{sloppy, gives("b")}, "", errLookup},
	} {
		key, err := keyfuncs.Join(test.funcs...)(r)
		if key != test.key || !errors.Is(err, test.err) {
			t.Errorf("%s: %q, %v; want %q, %v", test.name, key, err, test.key, test.err)
		}
	}
}

func TestJoinIsUnambiguous(t *testing.T) {
	lists := [][]string{
		{"a:b", "c"}, {"a", "b:c"}, {"a:b:c"}, {"a|b", "c"}, {"a", "b|c"}, {"a|b|c"}, {"a", "b", "c"},
		{`a\`, "b"}, {`a\|b`}, {`a\|`, "b"}, {"a", `\b`}, {`a\\`, "b"}, {`a|\`, "b"}, {`\`, `\`}, {`\|\`}, {`\\`},
		{"a b", "c"}, {"a\x00b", "c"}, {"a", "\x00b", "c"}, {"\xff", "|"}, {"|", "\xff"}, {"", "a"}, {"a", ""},
		{"", "", ""},
		{"a", keyfuncs.JoinString("b", "c")}, {keyfuncs.JoinString("a", "b"), "c"},
	}
	seen := map[string][]string{}
	for _, parts := range lists {
		key := keyfuncs.JoinString(parts...)
		if other, ok := seen[key]; ok {
			t.Errorf("%q and %q are both %q", parts, other, key)
		}
		seen[key] = parts
		var funcs []keyfuncs.Func
		for _, part := range parts {
			if part == "" {
				funcs = nil
				break
			}
			funcs = append(funcs, gives(part))
		}
		if funcs != nil {
			if got := mustKey(t, keyfuncs.Join(funcs...), request("")); got != key {
				t.Errorf("Join gives %q, JoinString %q", got, key)
			}
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

func TestErrNoKey(t *testing.T) {
	if errors.Is(errLookup, keyfuncs.ErrNoKey) || !errors.Is(keyfuncs.ErrNoKey, keyfuncs.ErrNoKey) {
		t.Error("errors.Is")
	}
	wantNoKey(t, keyfuncs.RemoteIP, request("@"))
}

// TestEveryone: all requests have one key.
func TestEveryone(t *testing.T) {
	if key, err := keyfuncs.Everyone(nil); key != "everyone" || err != nil {
		t.Error(key, err)
	}
}

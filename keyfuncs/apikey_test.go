package keyfuncs_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sashlimit/sash/keyfuncs"
)

// TestAPIKey: a request that names several clients, or may to another parser, is counted neither as one that its sender
// has chosen nor by its address.
func TestAPIKey(t *testing.T) {
	one, two := keyfuncs.APIKeyKey("demo-key-1"), keyfuncs.APIKeyKey("demo-key-2")
	header, bearer := keyfuncs.APIKey("x-api-KEY", known), keyfuncs.APIKey("authorization", known)
	only := keyfuncs.APIKey("X-API-Key", known, keyfuncs.HeaderOnly())
	long := strings.Repeat("k", 8193)
	for _, test := range []struct {
		name    string
		f       keyfuncs.Func
		headers []string
		want    string // the key, a part of the error that refuses, or "" for ErrNoKey
	}{
		{"header", header, []string{"X-API-Key: demo-key-1"}, one},
		{"blanks", header, []string{"X-API-Key: \tdemo-key-1 "}, one},
		{"bearer", header, []string{"Authorization: Bearer demo-key-1"}, one},
		{"scheme in capitals", header, []string{"Authorization: BEARER   demo-key-1"}, one},
		{"tab behind the scheme", header, []string{"Authorization: Bearer\tdemo-key-1"}, one},
		{"the same twice", header, []string{"Authorization: Bearer demo-key-1", "X-API-Key: demo-key-1"}, one},
		{"unknown, and a bearer", header, []string{"Authorization: Bearer demo-key-1", "X-API-Key: wrong"}, one},
		{"unknown bearer", header, []string{"Authorization: Bearer wrong", "X-API-Key: demo-key-2"}, two},
		{"blank header", header, []string{"Authorization: Bearer demo-key-1", "X-API-Key: "}, one},
		{"nothing", header, nil, ""},
		{"unverified", header, []string{"X-API-Key: demo-key-3"}, ""},
		{"case matters", header, []string{"X-API-Key: DEMO-KEY-1"}, ""},
		{"no scheme", header, []string{"Authorization: demo-key-1"}, ""},
		{"a scheme with commas", header, []string{`Authorization: Digest a="b", bearers="c", Bearerd=e`}, ""},
		{"scheme only", header, []string{"Authorization: Bearer"}, ""},
		{"Authorization: bearer", bearer, []string{"Authorization: Bearer demo-key-1"}, one},
		{"Authorization: no scheme", bearer, []string{"Authorization: demo-key-1"}, ""},
		{"header only: header", only, []string{"X-API-Key: demo-key-1", "Authorization: Bearer demo-key-2"}, one},
		{"header only: bearer", only, []string{"Authorization: Bearer demo-key-1"}, ""},
		{"header only: two bearers", only, []string{"Authorization: Bearer a", "Authorization: Bearer b"}, ""},

		{"twice", header, []string{"X-API-Key: demo-key-1", "X-API-Key: demo-key-1"}, "X-Api-Key came more than once"},
		{"twice, one blank", header, []string{"X-API-Key: ", "X-API-Key: demo-key-1"}, "more than once"},
		{"two bearers", header,
			[]string{"Authorization: Bearer demo-key-1", "Authorization: Bearer demo-key-1"}, "more than once"},
		{"two schemes", header, []string{"Authorization: Basic YTpi", "Authorization: Bearer demo-key-1"},
			"more than once"},
		{"two keys", header, []string{"X-API-Key: demo-key-1", "Authorization: Bearer demo-key-2"}, "two identities"},
		{"folded", header, []string{"X-API-Key: wrong, demo-key-1"}, "commas"},
		{"folded, and a bearer", header, []string{"X-API-Key: a, b", "Authorization: Bearer demo-key-1"}, "commas"},
		{"folded schemes", header, []string{"Authorization: Basic YTpi ,\t bearer\tdemo-key-1"}, "several credentials"},
		{"two words", header, []string{"X-API-Key: demo-key-1 wrong"}, "visible ASCII"},
		{"letters of another alphabet", header, []string{"X-API-Key: d\u0435mo-key-1"}, "visible ASCII"},
		{"too long", header, []string{"X-API-Key: " + long}, "8192 bytes"},
		{"too long a bearer", header, []string{"Authorization: Bearer " + long}, "8192 bytes"},
		{"Authorization: two", bearer,
			[]string{"Authorization: Bearer demo-key-1", "Authorization: Bearer demo-key-2"}, "more than once"},
		{"Authorization: folded", bearer, []string{"Authorization: Basic YTpi, Bearer demo-key-1"},
			"several credentials"},
		// Blanks for strings.Fields and strings.TrimSpace, and none for HTTP.
		{"no-break space", header, []string{"Authorization: Bearer\u00a0demo-key-1"}, "no blank of HTTP"},
		{"Authorization: no-break space", bearer, []string{"Authorization: Bearer\u00a0demo-key-1"}, "no blank of HTTP"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var err error
			switch r := request("198.51.100.7:1", test.headers...); test.want {
			case one, two:
				if got := mustKey(t, test.f, r); got != test.want {
					t.Errorf("%s, want %s", got, test.want)
				}
				return
			case "":
				err = wantNoKey(t, test.f, r)
			default:
				err = wantBadRequest(t, test.f, r)
			}
			text := strings.ToLower(err.Error())
			if !strings.Contains(err.Error(), test.want) || strings.Contains(text, "demo-key") || len(text) > 200 {
				t.Errorf("error %v; want %q", err, test.want)
			}
		})
	}
}

// Keys of any text may be issued: only what is not known is refused for it.
func TestAPIKeyWithCommasAndBlanks(t *testing.T) {
	odd := keyfuncs.APIKey("X-API-Key", func(_ context.Context, presented string) (string, error) {
		return map[string]string{"a, b": "1", "schlüssel 2": "2"}[presented], nil
	})
	for text, id := range map[string]string{"a, b": "1", "schlüssel 2": "2"} {
		if got := mustKey(t, odd, request("", "X-API-Key: "+text)); got != keyfuncs.APIKeyKey(id) {
			t.Errorf("%q: %s", text, got)
		}
	}
}

// The identity is counted, whatever the spelling that the verifier admits.
func TestAPIKeyCountsIdentities(t *testing.T) {
	f := keyfuncs.APIKey("X-API-Key", func(_ context.Context, presented string) (string, error) {
		if strings.EqualFold(presented, "sesame") {
			return "account 7", nil
		}
		return "", fmt.Errorf("no such row: %w", keyfuncs.ErrNoKey)
	})
	want := keyfuncs.APIKeyKey("account 7")
	for _, headers := range [][]string{
		{"X-API-Key: sesame"}, {"X-API-Key: SeSaMe"}, {"Authorization: Bearer SESAME"},
		{"X-API-Key: sesame", "Authorization: Bearer SESAME"},
	} {
		if got := mustKey(t, f, request("", headers...)); got != want {
			t.Errorf("%q: %s, want %s", headers, got, want)
		}
	}
	for header, want := range map[string]string{"X-A: a": "X-Api-Key is missing", "X-API-Key: a": "is not known"} {
		err := wantNoKey(t, f, request("", header))
		if !strings.Contains(err.Error(), want) || !errors.As(err, new(*keyfuncs.UnauthenticatedError)) {
			t.Errorf("%s: got %T %v, want an UnauthenticatedError with %q", header, err, err, want)
		}
	}
}

// verify is asked with what the client sent and the request's context, and not
// at all where there is nothing to ask about.
func TestAPIKeyAsksVerify(t *testing.T) {
	type contextKey struct{}
	var asked []string
	f := keyfuncs.APIKey("X-API-Key", func(ctx context.Context, key string) (string, error) {
		asked = append(asked, fmt.Sprint(key, " ", ctx.Value(contextKey{})))
		return "id", nil
	})
	ctx := context.WithValue(context.Background(), contextKey{}, "mine")
	mustKey(t, f, request("", "X-API-Key: abc").WithContext(ctx))
	mustKey(t, f, request("", "Authorization: Bearer d e").WithContext(ctx))
	mustKey(t, f, request("", "X-API-Key: f", "Authorization: Bearer f").WithContext(ctx)) // once
	mustKey(t, f, request("", "X-API-Key: g", "Authorization: Bearer h").WithContext(ctx))
	wantNoKey(t, f, request("").WithContext(ctx))
	wantBadRequest(t, f, request("", "X-API-Key: i", "X-API-Key: i"))
	wantBadRequest(t, f, request("", "X-API-Key: "+strings.Repeat("k", 8193)))
	if got := strings.Join(asked, ","); got != "abc mine,d e mine,f mine,g mine,h mine" {
		t.Error(got)
	}
}

func TestAPIKeyVerifyFails(t *testing.T) {
	const raw = "s3cr3t/+"
	cause := fmt.Errorf("GET https://keys.example/s3cr3t%%2F%%2B: %q: %w", raw, context.DeadlineExceeded)
	for _, id := range []string{"", "7"} {
		f := keyfuncs.APIKey("X-API-Key", func(context.Context, string) (string, error) { return id, cause })
		f = keyfuncs.First(f, keyfuncs.RemoteIP) // which must not go on
		key, err := f(request("198.51.100.7:1", "X-API-Key: "+raw))
		switch {
		case key != "" || err == nil || errors.Is(err, keyfuncs.ErrNoKey):
			t.Errorf("key %q, error %v", key, err)
		case !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, cause):
			t.Errorf("%v does not wrap the cause", err)
		}
		for _, text := range []string{
			err.Error(), fmt.Sprintf("%v %+v %q %s", err, err, err, fmt.Errorf("key: %w", err)),
		} {
			if strings.Contains(text, "s3cr3t") {
				t.Errorf("the error quotes the key: %s", text)
			}
		}
	}
}

func TestIssued(t *testing.T) {
	failed := errors.New("down")
	for _, test := range []struct {
		known bool
		err   error
		want  string
	}{{true, nil, "key"}, {false, nil, ""}, {true, failed, ""}, {false, failed, ""}} {
		verify := keyfuncs.VerifyFunc(func(context.Context, string) (bool, error) { return test.known, test.err })
		if id, err := verify(t.Context(), "key"); id != test.want || err != test.err {
			t.Errorf("%v, %v: %q, %v", test.known, test.err, id, err)
		}
	}
}

func TestAPIKeyPanicsOnMisuse(t *testing.T) {
	mustPanic(t, func() { keyfuncs.APIKey("X-API-Key", nil) }, "verify is nil", "(id string, err error)")
	mustPanic(t, func() { keyfuncs.APIKey("", known) }, "APIKey", "empty header name")
	mustPanic(t, func() { keyfuncs.APIKey("X API Key", known) }, `"X API Key"`)
	mustPanic(t, func() { keyfuncs.APIKey("X-API-Key", known, keyfuncs.HeaderOnly(), nil) }, "option 2 of 2 is nil")
	mustPanic(t, func() { keyfuncs.APIKey("authorization", known, keyfuncs.HeaderOnly()) }, "HeaderOnly", "leave")
	mustPanic(t, func() { keyfuncs.VerifyFunc(nil) }, "VerifyFunc", "(bool, error)")
}

func TestAPIKeyAllocations(t *testing.T) {
	f := keyfuncs.APIKey("X-API-Key", known)
	wantAllocs(t, 1, f, request("", "X-API-Key: demo-key-1"))
	wantAllocs(t, 1, f, request("", "Authorization: Bearer demo-key-1"))
}

package keyfuncs_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/keyfuncs"
)

// TestAPIKey: a request that names several clients, or may to another parser, is counted neither as one that its sender
// has chosen nor by its address. Keys of any text may be issued: only what is not known is refused for it.
func TestAPIKey(t *testing.T) {
	const bearer1, bearer2 = "Authorization: Bearer demo-key-1", "Authorization: Bearer demo-key-2"
	const x1, folded = "X-API-Key: demo-key-1", "several credentials"
	const missing, unknown, twice = "is missing", "is not known", "more than once"
	one, two := keyfuncs.APIKeyKey("demo-key-1"), keyfuncs.APIKeyKey("demo-key-2")
	header, bearer := keyfuncs.APIKey("x-api-KEY", known), keyfuncs.APIKey("authorization", known)
	only := keyfuncs.APIKey("X-API-Key", known, keyfuncs.HeaderOnly())
	odd := keyfuncs.APIKey("X-API-Key", keyfuncs.VerifyFunc(func(_ context.Context, key string) (bool, error) {
		return key == "a, b" || key == "schlüssel 2", nil
	}))
	long := strings.Repeat("k", 8193)
	for _, test := range []struct {
		name    string
		f       keyfuncs.Func
		headers []string
		want    string // the key, or a part of the error
	}{
		{"header", header, []string{x1}, one},
		{"blanks", header, []string{"X-API-Key: \tdemo-key-1 "}, one},
		{"bearer", header, []string{bearer1}, one},
		{"scheme in capitals", header, []string{"Authorization: BEARER   demo-key-1"}, one},
		{"tab behind the scheme", header, []string{"Authorization: Bearer\tdemo-key-1"}, one},
		{"the same twice", header, []string{bearer1, x1}, one},
		{"unknown, and a bearer", header, []string{bearer1, "X-API-Key: wrong"}, one},
		{"unknown bearer", header, []string{"Authorization: Bearer wrong", "X-API-Key: demo-key-2"}, two},
		{"blank header", header, []string{bearer1, "X-API-Key: "}, one},
		{"nothing", header, nil, missing},
		{"unverified", header, []string{"X-API-Key: demo-key-3"}, unknown},
		{"case matters", header, []string{"X-API-Key: DEMO-KEY-1"}, unknown},
		{"no scheme", header, []string{"Authorization: demo-key-1"}, missing},
		{"a scheme with commas", header, []string{`Authorization: Digest a="b", bearers="c", Bearerd=e`}, missing},
		{"scheme only", header, []string{"Authorization: Bearer"}, missing},
		{"Authorization: bearer", bearer, []string{bearer1}, one},
		{"Authorization: no scheme", bearer, []string{"Authorization: demo-key-1"}, missing},
		{"header only: header", only, []string{x1, bearer2}, one},
		{"header only: bearer", only, []string{bearer1}, missing},
		{"header only: two bearers", only, []string{bearer1, bearer2}, missing},
		{"known with a comma", odd, []string{"X-API-Key: a, b"}, keyfuncs.APIKeyKey("a, b")},
		{"known with a blank", odd, []string{"X-API-Key: schlüssel 2"}, keyfuncs.APIKeyKey("schlüssel 2")},

		{"twice", header, []string{x1, x1}, "X-Api-Key came more than once"},
		{"twice, one blank", header, []string{"X-API-Key: ", x1}, twice},
		{"two bearers", header, []string{bearer1, bearer1}, twice},
		{"two schemes", header, []string{"Authorization: Basic YTpi", bearer1}, twice},
		{"two keys", header, []string{x1, bearer2}, "two identities"},
		{"folded", header, []string{"X-API-Key: wrong, demo-key-1"}, "commas"},
		{"folded, and a bearer", header, []string{"X-API-Key: a, b", bearer1}, "commas"},
		{"folded schemes", header, []string{"Authorization: Basic YTpi ,\t bearer\tdemo-key-1"}, folded},
		{"two words", header, []string{"X-API-Key: demo-key-1 wrong"}, "visible ASCII"},
		{"letters of another alphabet", header, []string{"X-API-Key: d\u0435mo-key-1"}, "visible ASCII"},
		{"too long", header, []string{"X-API-Key: " + long}, "8192 bytes"},
		{"too long a bearer", header, []string{"Authorization: Bearer " + long}, "8192 bytes"},
		{"Authorization: two", bearer, []string{bearer1, bearer2}, twice},
		{"Authorization: folded", bearer, []string{"Authorization: Basic YTpi, Bearer demo-key-1"}, folded},
		// Blanks for strings.Fields and strings.TrimSpace, and none for HTTP.
		{"no-break space", header, []string{"Authorization: Bearer\u00a0demo-key-1"}, "no blank of HTTP"},
		{"Authorization: no-break", bearer, []string{"Authorization: Bearer\u00a0demo-key-1"}, "no blank of HTTP"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, refusedBy := request("198.51.100.7:1", test.headers...), wantBadRequest
			if strings.HasPrefix(test.want, "apikey:") {
				if got := mustKey(t, test.f, r); got != test.want {
					t.Errorf("%s, want %s", got, test.want)
				}
				return
			}
			if test.want == missing || test.want == unknown {
				refusedBy = wantUnauthenticated
			}
			text := refusedBy(t, test.f, r).Error()
			quoted := strings.Contains(strings.ToLower(text), "demo-key")
			if !strings.Contains(text, test.want) || quoted || len(text) > 200 {
				t.Errorf("error %s; want %q", text, test.want)
			}
		})
	}
}

// wantUnauthenticated fails unless f returns an UnauthenticatedError for r. It returns the error.
func wantUnauthenticated(t testing.TB, f keyfuncs.Func, r *http.Request) error {
	t.Helper()
	err := wantNoKey(t, f, r)
	if !errors.As(err, new(*keyfuncs.UnauthenticatedError)) {
		t.Errorf("got %T %v, want an UnauthenticatedError", err, err)
	}
	return err
}

// The identity is counted, whatever the spelling that the verifier admits.
func TestAPIKeyCountsIdentities(t *testing.T) {
	f := keyfuncs.APIKey("X-API-Key", func(_ context.Context, presented string) (string, error) {
		if strings.EqualFold(presented, "sesame") {
			return "account 7", nil
		}
		return "", fmt.Errorf("no such row: %w", keyfuncs.ErrNoKey)
	})
	for _, headers := range [][]string{
		{"X-API-Key: sesame"}, {"X-API-Key: SeSaMe"}, {"Authorization: Bearer SESAME"},
		{"X-API-Key: sesame", "Authorization: Bearer SESAME"},
	} {
		if got, want := mustKey(t, f, request("", headers...)), keyfuncs.APIKeyKey("account 7"); got != want {
			t.Errorf("%q: %s, want %s", headers, got, want)
		}
	}
	wantUnauthenticated(t, f, request("", "X-API-Key: a"))
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

// TestAPIKeyVerifyFails: an error of verify is found in that of the key function, whose text does not quote the key.
// First does not go on after it.
func TestAPIKeyVerifyFails(t *testing.T) {
	const raw = "s3cr3t/+"
	cause := fmt.Errorf("GET https://keys.example/s3cr3t%%2F%%2B: %q: %w", raw, context.DeadlineExceeded)
	for _, id := range []string{"", "7"} {
		f := keyfuncs.APIKey("X-API-Key", func(context.Context, string) (string, error) { return id, cause })
		key, err := keyfuncs.First(f, keyfuncs.RemoteIP)(request("198.51.100.7:1", "X-API-Key: "+raw))
		if key != "" || !errors.Is(err, cause) || errors.Is(err, keyfuncs.ErrNoKey) {
			t.Errorf("got the key %q and %v, want the cause", key, err)
		}
		text := fmt.Sprintf("%s %v %+v %q %s", err.Error(), err, err, err, fmt.Errorf("key: %w", err))
		if strings.Contains(text, "s3cr3t") {
			t.Errorf("the error quotes the key: %s", text)
		}
	}
}

// TestVerifyFuncFails: where a VerifyFunc fails, no key is known.
func TestVerifyFuncFails(t *testing.T) {
	for _, known := range []bool{true, false} {
		verify := keyfuncs.VerifyFunc(func(context.Context, string) (bool, error) { return known, errLookup })
		if id, err := verify(t.Context(), "key"); id != "" || err != errLookup {
			t.Errorf("%v: got %q, %v, want the error alone", known, id, err)
		}
	}
}

func TestAPIKeyPanicsOnMisuse(t *testing.T) {
	mustPanic(t, func() { keyfuncs.APIKey("X-API-Key", nil) }, "verify is nil", "(id string, err error)")
	mustPanic(t, func() { keyfuncs.APIKey("", known) }, "APIKey", `"" cannot be`)
	mustPanic(t, func() { keyfuncs.APIKey("X API Key", known) }, `"X API Key"`)
	mustPanic(t, func() { keyfuncs.APIKey("X-API-Key", known, keyfuncs.HeaderOnly(), nil) }, "option 2 of 2 is nil")
	mustPanic(t, func() { keyfuncs.APIKey("authorization", known, keyfuncs.HeaderOnly()) }, "HeaderOnly", "leave")
	mustPanic(t, func() { keyfuncs.VerifyFunc(nil) }, "VerifyFunc", "(bool, error)")
	limiter := failureLimiter(1)
	mustPanic(t, func() { keyfuncs.LimitFailures(nil, keyfuncs.RemoteIP) }, "limiter is nil", "core.New")
	mustPanic(t, func() { keyfuncs.LimitFailures(new(core.Limiter), keyfuncs.RemoteIP) }, "zero Limiter", "core.New")
	mustPanic(t, func() { keyfuncs.LimitFailures(limiter, nil) }, "address", "RemoteIP")
}

func TestAPIKeyAllocations(t *testing.T) {
	f := keyfuncs.APIKey("X-API-Key", known)
	wantAllocs(t, 1, f, request("", "X-API-Key: demo-key-1"))
	wantAllocs(t, 1, f, request("", "Authorization: Bearer demo-key-1"))
}

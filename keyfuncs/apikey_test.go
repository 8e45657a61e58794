package keyfuncs_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sashlimit/sash/keyfuncs"
)

func TestAPIKey(t *testing.T) {
	one, two := keyfuncs.APIKeyString("demo-key-1"), keyfuncs.APIKeyString("demo-key-2")
	header := keyfuncs.APIKey("x-api-KEY", known)
	authorization := keyfuncs.APIKey("authorization", known)
	for _, test := range []struct {
		name    string
		f       keyfuncs.Func
		headers []string
		want    string // empty: ErrNoKey
	}{
		{"header", header, []string{"X-API-Key: demo-key-1"}, one},
		{"another key", header, []string{"X-API-Key: demo-key-2"}, two},
		{"blanks", header, []string{"X-API-Key: \tdemo-key-1 "}, one},
		{"bearer", header, []string{"Authorization: Bearer demo-key-1"}, one},
		{"scheme in lower case", header, []string{"Authorization: bearer demo-key-1"}, one},
		{"scheme in capitals", header, []string{"Authorization: BEARER   demo-key-1"}, one},
		{"the header comes first", header, []string{"Authorization: Bearer demo-key-1", "X-API-Key: demo-key-2"}, two},
		{"the header comes first, though it is wrong", header, []string{"Authorization: Bearer demo-key-1", "X-API-Key: wrong"}, ""},
		{"blank header", header, []string{"Authorization: Bearer demo-key-1", "X-API-Key: "}, one},
		{"nothing", header, nil, ""},
		{"unverified", header, []string{"X-API-Key: demo-key-3"}, ""},
		{"case matters", header, []string{"X-API-Key: DEMO-KEY-1"}, ""},
		{"unverified bearer", header, []string{"Authorization: Bearer demo-key-3"}, ""},
		{"twice", header, []string{"X-API-Key: demo-key-1", "X-API-Key: demo-key-1"}, ""},
		{"twice, and a bearer", header, []string{"X-API-Key: demo-key-1", "X-API-Key: demo-key-2", "Authorization: Bearer demo-key-1"}, ""},
		{"two bearers", header, []string{"Authorization: Bearer demo-key-1", "Authorization: Bearer demo-key-1"}, ""},
		{"no scheme", header, []string{"Authorization: demo-key-1"}, ""},
		{"another scheme", header, []string{"Authorization: Basic demo-key-1"}, ""},
		{"scheme run together", header, []string{"Authorization: Bearerdemo-key-1"}, ""},
		{"scheme only", header, []string{"Authorization: Bearer"}, ""},
		{"scheme and blanks", header, []string{"Authorization: Bearer   "}, ""},
		{"Authorization: bearer", authorization, []string{"Authorization: Bearer demo-key-1"}, one},
		{"Authorization: no scheme", authorization, []string{"Authorization: demo-key-1"}, ""},
		{"Authorization: another scheme", authorization, []string{"Authorization: Basic demo-key-1"}, ""},
		{"Authorization: two", authorization, []string{"Authorization: Bearer demo-key-1", "Authorization: Bearer demo-key-2"}, ""},
		{"Authorization: nothing", authorization, []string{"X-API-Key: demo-key-1"}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := request("198.51.100.7:1", test.headers...)
			if test.want == "" {
				err := wantNoKey(t, test.f, r)
				if strings.Contains(strings.ToLower(err.Error()), "demo-key") {
					t.Errorf("the error quotes the key: %v", err)
				}
			} else if got := mustKey(t, test.f, r); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

func TestAPIKeySaysWhatIsWrong(t *testing.T) {
	f := keyfuncs.APIKey("X-API-Key", known)
	for want, headers := range map[string][]string{
		"X-Api-Key is missing":     nil,
		"X-Api-Key came more than": {"X-API-Key: demo-key-1", "X-API-Key: demo-key-2"},
		"the API key is not known": {"X-API-Key: invented"},
	} {
		if err := wantNoKey(t, f, request("", headers...)); !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", headers, err)
		}
	}
}

// verify is asked with what the client sent and the request's context, and not
// at all where there is nothing to ask about.
func TestAPIKeyAsksVerify(t *testing.T) {
	type contextKey struct{}
	var asked []string
	f := keyfuncs.APIKey("X-API-Key", func(ctx context.Context, key string) (bool, error) {
		asked = append(asked, fmt.Sprint(key, " ", ctx.Value(contextKey{})))
		return true, nil
	})
	ctx := context.WithValue(context.Background(), contextKey{}, "mine")
	mustKey(t, f, request("", "X-API-Key: abc").WithContext(ctx))
	mustKey(t, f, request("", "Authorization: Bearer d e").WithContext(ctx))
	wantNoKey(t, f, request("").WithContext(ctx))
	if got := strings.Join(asked, ","); got != "abc mine,d e mine" {
		t.Error(got)
	}
}

func TestAPIKeyVerifyFails(t *testing.T) {
	const raw = "s3cr3t/+"
	cause := fmt.Errorf("GET https://keys.example/s3cr3t%%2F%%2B: %q: %w", raw, context.DeadlineExceeded)
	for _, ok := range []bool{false, true} {
		f := keyfuncs.APIKey("X-API-Key", func(context.Context, string) (bool, error) { return ok, cause })
		f = keyfuncs.First(f, keyfuncs.RemoteIP) // which must not go on
		key, err := f(request("198.51.100.7:1", "X-API-Key: "+raw))
		switch {
		case key != "" || err == nil || errors.Is(err, keyfuncs.ErrNoKey):
			t.Errorf("key %q, error %v", key, err)
		case !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, cause):
			t.Errorf("%v does not wrap the cause", err)
		}
		for _, text := range []string{err.Error(), fmt.Sprintf("%v %+v %q %s", err, err, err, fmt.Errorf("key: %w", err))} {
			if strings.Contains(text, "s3cr3t") {
				t.Errorf("the error quotes the key: %s", text)
			}
		}
	}
}

func TestAPIKeyString(t *testing.T) {
	for _, raw := range []string{"", "demo-key-1", strings.Repeat("x", 10_000), "\x00\xff"} {
		want := fmt.Sprintf("apikey:%x", sha256.Sum256([]byte(raw)))[:len("apikey:")+32]
		if got := keyfuncs.APIKeyString(raw); got != want {
			t.Errorf("%.20q: %s, want %s", raw, got, want)
		}
	}
}

func TestAPIKeyPanicsOnMisuse(t *testing.T) {
	mustPanic(t, func() { keyfuncs.APIKey("X-API-Key", nil) }, "verify is nil", "func(ctx context.Context, key string) (bool, error)")
	mustPanic(t, func() { keyfuncs.APIKey("", known) }, "APIKey", "empty header name")
	mustPanic(t, func() { keyfuncs.APIKey("X API Key", known) }, `"X API Key"`)
}

package keyfuncs_test

import (
	"context"
	"testing"

	"github.com/sashlimit/sash/keyfuncs"
)

type userKey struct{}

func user(ctx context.Context) (string, bool) {
	id, ok := ctx.Value(userKey{}).(string)
	return id, ok
}

func TestUserID(t *testing.T) {
	f := keyfuncs.UserID(user)
	r := request("198.51.100.7:1")
	wantNoKey(t, f, r)
	for id, want := range map[string]string{"42": "user:42", "a:b|c\n": "user:a:b|c\n", " ": "user: "} {
		if got := mustKey(t, f, r.WithContext(context.WithValue(context.Background(), userKey{}, id))); got != want {
			t.Errorf("%q: %q, want %q", id, got, want)
		}
		if got := keyfuncs.UserIDKey(id); got != want {
			t.Errorf("UserIDKey(%q) = %q, want %q", id, got, want)
		}
	}
	wantNoKey(t, f, r.WithContext(context.WithValue(context.Background(), userKey{}, "")))
	wantNoKey(t, keyfuncs.UserID(func(context.Context) (string, bool) { return "42", false }), r)
	if got := keyfuncs.UserIDKey(""); got != "" {
		t.Errorf("UserIDKey of nobody: got %q, want none", got)
	}
	mustPanic(t, func() { keyfuncs.UserID(nil) }, "UserID", "func(context.Context) (string, bool)")
	wantAllocs(t, 1, f, r.WithContext(context.WithValue(context.Background(), userKey{}, "42")))
}

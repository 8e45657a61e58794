package keyfuncs

import (
	"context"
	"net/http"
)

// UserID names the client by the user that the authentication in front has put into the request's context. The key is
// user:42. The function id gets that context and returns the user's identifier, and must be safe for concurrent use.
// The identifier goes into the store as it is.
//
// The limiter has to run behind the authentication: before it, no request has a user. A request whose credentials the
// authentication refuses must not come here, or [First] would count it under the next name. The error matches
// [ErrNoKey] if id returns false or an empty identifier.
func UserID(id func(context.Context) (string, bool)) Func {
	if id == nil {
		panic("sash: UserID: nil function; " +
			"give a func(context.Context) (string, bool) that returns the user's identifier")
	}
	var noUser error = noKeyError("the request's context holds no user")
	return func(r *http.Request) (string, error) {
		user, ok := id(r.Context())
		if !ok || user == "" {
			return "", noUser
		}
		return UserIDKey(user), nil
	}
}

// UserIDKey returns the key under which [UserID] counts the user with an identifier, for Reset and Usage: user:42.
// It returns "" for an empty one, which UserID does not name.
func UserIDKey(id string) string {
	if id == "" {
		return ""
	}
	return "user:" + id
}

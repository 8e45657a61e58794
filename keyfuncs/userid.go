package keyfuncs

import (
	"context"
	"net/http"
)

// UserID names the client by the user in the request's context, where the authentication in front has put it. The key
// is user:42. id returns the identifier of the user in a context, and must be safe for concurrent use. The identifier
// goes into the store as it is.
//
// The limiter must run behind the authentication, since before it no request has a user. The authentication must end a
// request with wrong credentials, or [First] counts it under the next name. The error matches [ErrNoKey] if id returns
// false or an empty identifier.
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

// UserIDKey returns the key under which [UserID] counts the user with an identifier, for Reset and Usage: user:42. It
// returns "" for an empty one.
func UserIDKey(id string) string {
	if id == "" {
		return ""
	}
	return "user:" + id
}

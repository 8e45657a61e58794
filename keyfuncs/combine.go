package keyfuncs

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/sashlimit/sash/internal/errs"
)

// First names the client by the first of the functions that can name it:
//
//	ip := keyfuncs.RemoteIP
//	keyfuncs.First(keyfuncs.APIKey("X-API-Key", identify, keyfuncs.LimitFailures(failures, ip)), ip)
//
// It goes on to the next function only after [ErrNoKey] or an empty key, and returns any other error: a failed look-up,
// or a request with two names ([ErrBadRequest]), is not a client without a name. If no function names the client, the
// error matches ErrNoKey and the first [*UnauthenticatedError], so that a missing API key gets 401. Its text is that of
// the last function.
//
// A client that leaves out the first name is counted under the second. So each function after the first should be at
// least as hard to forge.
func First(funcs ...Func) Func {
	funcs = mustFuncs("First", funcs)
	return func(r *http.Request) (string, error) {
		var key string
		var err error
		var unauthenticated *UnauthenticatedError
		for _, f := range funcs {
			key, err = keyOf(f, r)
			if err == nil || !errors.Is(err, ErrNoKey) {
				return key, err
			}
			if unauthenticated == nil {
				unauthenticated, _ = errors.AsType[*UnauthenticatedError](err)
			}
		}
		if unauthenticated != nil && !errors.Is(err, unauthenticated) {
			err = fmt.Errorf("%w; %s", unauthenticated, errs.Text(err))
		}
		return key, err
	}
}

// Join names the client by the keys of all functions, for example to count a user on each address:
//
//	keyfuncs.Join(keyfuncs.UserID(user), keyfuncs.RemoteIP)
//
// The key is "join:" and the keys with a | between them, join:user:42|ip:198.51.100.7; see [JoinKeys]. Different lists
// of keys never have the same joined key, and no other function of this package returns such a key. The error is that
// of the first function that fails; for an empty key it matches [ErrNoKey].
func Join(funcs ...Func) Func {
	funcs = mustFuncs("Join", funcs)
	return func(r *http.Request) (string, error) {
		var buf [4]string
		parts := buf[:0]
		for _, f := range funcs {
			part, err := keyOf(f, r)
			if err != nil {
				return "", err
			}
			parts = append(parts, part)
		}
		return JoinKeys(parts...), nil
	}
}

// JoinKeys returns the key that [Join] makes from the keys of its functions, for Reset and Usage. A backslash precedes
// each | and each backslash of a part.
func JoinKeys(parts ...string) string {
	var buf [128]byte
	// Without the prefix, a header's value with a | could be taken for a joined key by a First of both.
	joined := append(buf[:0], "join:"...)
	for i, part := range parts {
		if i > 0 {
			joined = append(joined, '|')
		}
		joined = append(joined, escape.Replace(part)...)
	}
	return string(joined)
}

var escape = strings.NewReplacer(`|`, `\|`, `\`, `\\`)

// keyOf returns the key of f for the request, or ErrNoKey for an empty key.
func keyOf(f Func, r *http.Request) (string, error) {
	key, err := f(r)
	if err != nil {
		return "", err
	}
	if key == "" {
		return "", ErrNoKey
	}
	return key, nil
}

// mustFuncs returns a copy of funcs, so that the caller may change its slice. It panics if funcs is empty or has a nil.
func mustFuncs(caller string, funcs []Func) []Func {
	if len(funcs) == 0 {
		panic("sash: " + caller + ": no functions; give at least one, such as keyfuncs.RemoteIP")
	}
	mustNotBeNil(caller, "function", funcs)
	return slices.Clone(funcs)
}

// mustNotBeNil panics if one of the caller's arguments is nil.
func mustNotBeNil[F any](caller, what string, arguments []F) {
	if i := slices.IndexFunc(arguments, func(f F) bool { return errs.IsNil(f) }); i >= 0 {
		panic(fmt.Sprintf("sash: %s: %s %d of %d is nil: leave it out", caller, what, i+1, len(arguments)))
	}
}

// AllClients is a key function that returns the key "all-clients" for every request, for a limit that all clients
// share.
func AllClients(*http.Request) (string, error) { return "all-clients", nil }

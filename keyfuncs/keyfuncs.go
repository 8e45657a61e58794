package keyfuncs

import "net/http"

// Func names the client of a request: all requests of one name share one count.
// It returns a key that is not empty, or an error:
//
//   - an error that matches [ErrNoKey] if the request carries no such name.
//     [First] then asks the next function; at the end of the line the request
//     is refused with 400, never let through unlimited;
//   - any other error if the name could not be found out, a failed lookup for
//     example. The request is answered with 500, without the error's text.
//
// A Func is called by many goroutines at once and must neither change the
// request nor read its body.
type Func = func(*http.Request) (string, error)

// ErrNoKey says that the request has no name of the kind that was asked for.
// Compare with [errors.Is]: the errors of this package match it and say more.
const ErrNoKey constError = "keyfuncs: no key: the request has no such name"

// constError makes an error a constant, so that nobody can reassign it.
type constError string

func (e constError) Error() string { return string(e) }

// noKeyError is an ErrNoKey that says what was missing.
type noKeyError string

func (e noKeyError) Error() string { return "keyfuncs: no key: " + string(e) }

func (e noKeyError) Is(target error) bool { return target == ErrNoKey }

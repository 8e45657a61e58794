package keyfuncs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
)

// apiKeyBytes of the SHA-256 are kept. Only verified keys are counted, so a
// collision would have to be one of two keys that were both issued; 128 bits
// rule it out at half the room in the store.
const apiKeyBytes = 16

// APIKey names the client by its API key: the value of the given header, or,
// where that is missing or blank, the token of "Authorization: Bearer" (the
// scheme in any case). If header is Authorization itself, only a Bearer token
// is taken, without its scheme, and any other scheme is no API key.
//
// verify says whether the key is one that was issued. Without that question a
// client who invents a new key for every request would never be limited, so
// there is no way to leave it out. It is asked on each request, by many
// goroutines at once and with the request's context: look in memory, or cache.
//
// The key is apikey: and the first 128 bits of the SHA-256 of the API key in
// hex, apikey:0b2c109e25ac7d47cc0c56f999832031; [APIKeyString] computes the
// same. The API key itself is in no key and no error. Hashing hides it as well
// as it is hard to guess.
//
// The error matches [ErrNoKey] if there is no API key, if it came in more than
// one line of the header, or if verify returned false: an unverified key names
// nobody, and [First] goes on, to [RemoteIP] for example, so that guessing keys
// is limited too. If verify fails, the error is another one, which wraps that
// of verify for [errors.Is] and [errors.As]. Its text does not repeat verify's,
// which may quote the key.
//
// APIKey panics if the name cannot be that of a header, or if verify is nil.
func APIKey(header string, verify func(ctx context.Context, key string) (bool, error)) Func {
	header = mustHeaderName("APIKey", header)
	if verify == nil {
		panic("keyfuncs: APIKey: verify is nil; give a func(ctx context.Context, key string) (bool, error) that says whether the key was issued: unverified, each invented key would get a count of its own")
	}
	missing, repeated := noHeader(header)
	var unknown error = noKeyError("the API key is not known")
	return func(r *http.Request) (string, error) {
		raw, ok := apiKey(r, header)
		switch {
		case !ok:
			return "", repeated
		case raw == "":
			return "", missing
		}
		known, err := verify(r.Context(), raw)
		switch {
		case err != nil:
			return "", &verifyError{err}
		case !known:
			return "", unknown
		}
		return APIKeyString(raw), nil
	}
}

// apiKey returns the API key of a request, empty if it has none. It is not ok
// if there are several.
func apiKey(r *http.Request, header string) (raw string, ok bool) {
	if header != "Authorization" {
		value, lines := headerValue(r, header)
		if value != "" || lines > 1 {
			return value, lines == 1
		}
	}
	value, lines := headerValue(r, "Authorization")
	if lines > 1 {
		return "", false
	}
	const bearer = "Bearer "
	if len(value) < len(bearer) || !strings.EqualFold(value[:len(bearer)], bearer) {
		return "", true
	}
	return trim(value[len(bearer):]), true
}

// APIKeyString returns the key under which [APIKey] counts an API key, for a
// Reset of its count or to find it in a log.
func APIKeyString(raw string) string {
	const prefix = "apikey:"
	sum := sha256.Sum256([]byte(raw))
	var buf [len(prefix) + 2*apiKeyBytes]byte
	n := copy(buf[:], prefix)
	hex.Encode(buf[n:], sum[:apiKeyBytes])
	return string(buf[:])
}

// verifyError wraps the error of a verifier and keeps its text to itself.
type verifyError struct{ err error }

func (e *verifyError) Error() string { return "keyfuncs: the API key could not be verified" }

func (e *verifyError) Unwrap() error { return e.err }

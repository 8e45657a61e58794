package keyfuncs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"strings"

	"github.com/sashlimit/sash/internal/token"
)

// apiKeyBytes is the number of bytes of a SHA-256 in a key. Only verified identities are counted, so a collision takes
// two issued ones. 128 bits rule it out, and take half of the memory of 256.
const apiKeyBytes = 16

// APIKey names the client by its API key: the value of the given header, and the token of "Authorization: Bearer" (the
// scheme in any case). If header is Authorization itself, only a Bearer token is an API key. With [HeaderOnly],
// Authorization is not read.
//
// verify returns the identity of an API key, such as the id of its account, and "" or [ErrNoKey] for an unknown key.
// [VerifyFunc] makes it from a function that reports whether a key was issued. The identity is counted, so all
// spellings that verify accepts have one count; verify must be the function by which the application authenticates. It
// is called for each request, with the request's context and by many goroutines at once, so it should look in memory. A
// key that is unknown names no client, and [First] goes on to the next function.
//
// With First and the address behind APIKey, the limit of the address does not limit guesses: when it is used up, a
// wrong key gets 429 and the right one 200. Give [LimitFailures], or put a guard outside that counts every request by
// its address.
//
// The error is an [*UnauthenticatedError], which matches ErrNoKey, if the request has no API key or an unknown one. It
// matches [ErrBadRequest] if the header or Authorization comes in more than one line or has more than 8 KiB, if header
// and bearer are known keys of two identities, or if an unknown key could hide a known one from another parser, as
// "a, b" does. If only one of header and bearer is known, it counts. If verify fails, the error wraps that of verify,
// and its text does not repeat it.
func APIKey(header string, verify func(context.Context, string) (string, error), options ...APIKeyOption) Func {
	k := apiKeys{
		header:        newHeader(mustHeaderName("APIKey", header)),
		authorization: newHeader(authorization),
		verify:        verify,
	}
	if verify == nil {
		panic("sash: APIKey: verify is nil; " +
			"give a func(ctx context.Context, key string) (id string, err error) " +
			"that returns the identity of an issued key: unverified, each invented key would get a count of its own")
	}
	mustNotBeNil("APIKey", "option", options)
	for _, option := range options {
		option(&k)
	}
	if k.headerOnly && k.header.name == authorization {
		panic("sash: APIKey: HeaderOnly and the header Authorization contradict each other; " +
			"leave HeaderOnly out")
	}
	challenge := `Bearer realm="API key"`
	if k.headerOnly {
		challenge = `ApiKey realm="` + k.header.name + `"`
	}
	k.missing = &UnauthenticatedError{challenge, k.header.name + " is missing"}
	k.unknown = &UnauthenticatedError{challenge + `, error="invalid_token"`, "the API key is not known"}
	return k.key
}

// VerifyFunc returns a verify function for [APIKey] from a function that reports whether a key was issued. The key
// itself is the identity, so isKnown must report true for exactly one spelling of each key: compare bytes, not letters
// in any case, and never use a JWT, whose signature has several spellings.
func VerifyFunc(isKnown func(context.Context, string) (bool, error)) func(context.Context, string) (string, error) {
	if isKnown == nil {
		panic("sash: VerifyFunc: nil function; give a func(ctx context.Context, key string) (bool, error) " +
			"that reports whether the key was issued")
	}
	return func(ctx context.Context, key string) (string, error) {
		if ok, err := isKnown(ctx, key); err != nil || !ok {
			return "", err
		}
		return key, nil
	}
}

// APIKeyOption is an option of [APIKey].
type APIKeyOption func(*apiKeys)

// HeaderOnly makes [APIKey] read the header alone, and not Authorization. It is for applications whose bearer tokens
// are something else, such as a user's session: verify would be called for each token, and with [LimitFailures] each
// would count as a failure.
func HeaderOnly() APIKeyOption {
	return func(k *apiKeys) { k.headerOnly = true }
}

// apiKeys holds the arguments of APIKey. It does not change after construction.
type apiKeys struct {
	header, authorization header
	verify                func(ctx context.Context, key string) (id string, err error)
	headerOnly            bool
	failures              *failures // nil: failures are not limited
	missing, unknown      *UnauthenticatedError
}

const authorization = "Authorization"

const (
	errTwoKeys      badRequestError = "the API keys of two identities came together"
	errMalformedKey badRequestError = "the API key is not known and is no visible ASCII without commas and blanks"
	errBearerList   badRequestError = "the header Authorization holds several credentials, " +
		"or Bearer beside a character that is no blank of HTTP"
)

// key is the Func that APIKey returns.
func (k *apiKeys) key(r *http.Request) (string, error) {
	keys, err := k.read(r)
	if err != nil {
		return "", err
	}
	if keys == [2]string{} {
		return "", k.missing
	}
	id := ""
	for _, key := range keys {
		if key == "" {
			continue
		}
		found, err := k.identity(r, key)
		switch {
		case err != nil:
			return "", err
		case found == "" && !isVisible(key):
			return "", errMalformedKey
		case found == "":
		case id != "" && found != id:
			return "", errTwoKeys
		default:
			id = found
		}
	}
	if id == "" {
		return "", k.unknown
	}
	return APIKeyKey(id), nil
}

// read returns the API keys of a request: that of the header, and the bearer token. A key is empty if the request has
// none there; the second one is empty too if both are equal.
func (k *apiKeys) read(r *http.Request) (keys [2]string, err error) {
	if k.header.name != authorization {
		if keys[0], err = k.header.value(r); err != nil {
			return keys, err
		}
	}
	if k.headerOnly {
		return keys, nil
	}
	value, err := k.authorization.value(r)
	if err != nil {
		return keys, err
	}
	bearer, ok := cutBearer(value)
	if !ok && hasBearer(value) {
		return keys, errBearerList
	}
	if bearer != keys[0] {
		keys[1] = bearer
	}
	return keys, nil
}

// identity returns the identity of a key, or "" for an unknown key. With LimitFailures, it counts an unknown key as a
// failure of the request's address.
func (k *apiKeys) identity(r *http.Request, key string) (id string, err error) {
	verify := func() (string, error) {
		id, err := k.verify(r.Context(), key)
		switch {
		case err == nil:
			return id, nil
		case errors.Is(err, ErrNoKey):
			return "", nil
		}
		return "", &verifyError{err}
	}
	if k.failures == nil {
		return verify()
	}
	return k.failures.limit(r, verify)
}

// cutBearer returns the token in a value of Authorization, and reports whether the value is a Bearer token.
func cutBearer(value string) (token string, ok bool) {
	rest := cutScheme(value)
	if rest == "" || strings.IndexByte(blanks, rest[0]) < 0 {
		return "", false
	}
	return trim(rest), true
}

// hasBearer reports whether another parser may find a Bearer token in a value without one for cutBearer: after a comma
// of a proxy that joins lines, or beside a space of Unicode, at which strings.Fields splits.
func hasBearer(value string) bool {
	for credential := range strings.SplitSeq(value, ",") {
		if rest := cutScheme(strings.TrimSpace(credential)); rest != "" && !token.IsValid(rest[:1]) {
			return true
		}
	}
	return false
}

// cutScheme returns what follows the scheme Bearer in a credential, or "" for another scheme.
func cutScheme(credential string) string {
	const scheme = "Bearer"
	if n := min(len(scheme), len(credential)); strings.EqualFold(credential[:n], scheme) {
		return credential[n:]
	}
	return ""
}

// isVisible reports whether s is visible ASCII without commas, so that all parsers of headers read it alike.
func isVisible(s string) bool {
	return !strings.ContainsFunc(s, func(c rune) bool { return c <= ' ' || c > '~' || c == ',' })
}

// APIKeyKey returns the key under which [APIKey] counts an identity, for Reset, Usage and logs: "apikey:" and the first
// 128 bits of the SHA-256 of the identity in hex. With [VerifyFunc], the identity is the API key.
func APIKeyKey(id string) string {
	var buf [64]byte
	sum := sha256.Sum256([]byte(id))
	return string(hex.AppendEncode(append(buf[:0], "apikey:"...), sum[:apiKeyBytes]))
}

// verifyError wraps the error of verify and hides its text.
type verifyError struct{ err error }

func (e *verifyError) Error() string { return "sash: the API key could not be verified" }

func (e *verifyError) Unwrap() error { return e.err }

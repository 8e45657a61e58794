package keyfuncs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/sashlimit/sash/internal/token"
)

// apiKeyBytes is the number of bytes of the SHA-256 that a key holds. Only verified identities are counted, so that
// only two identities that were both issued could collide. 128 bits rule this out at half the room in the store.
const apiKeyBytes = 16

// APIKey names the client by its API key: the value of the given header and the token of "Authorization: Bearer" (the
// scheme in any case). If header is Authorization itself, only a Bearer token is taken. With [HeaderOnly],
// Authorization is not read.
//
// verify gets the request's context and the key that the client presented. It returns the identity behind it, such as
// the id of its account, and an empty one, or [ErrNoKey], for a key that was not issued. The identity is counted, so
// all spellings that verify admits have one count. verify must be what the application itself authenticates with. It
// is asked on each request, by many goroutines at once and with the request's context: look in memory, or cache.
// [KeyVerifier] makes it of a function that knows only yes and no. A key that verify does not know names no client, and
// [First] goes on to the next function.
//
// Guessing keys is not limited by the limit of the address that First goes on to: when that is spent, a wrong key is
// answered with 429 and the right one with 200. Give [LimitFailures], or put a guard outside that counts every
// request by its address.
//
// A request names one client, or is refused with an error that matches [ErrBadRequest]: if the header or
// Authorization comes in more than one line or has more than 8 KiB, if header and bearer are known keys of two
// identities, or if a key that is not known could hide a known one from another parser, as "a, b" does. If one of
// header and bearer is known and the other one is not, the known one counts. The error is an [*UnauthenticatedError],
// so an ErrNoKey, if there is no API key, or if it is not known. If verify fails, the error wraps that of verify, and
// its text does not repeat it.
func APIKey(header string, verify func(context.Context, string) (string, error), options ...APIKeyOption) Func {
	k := apiKeys{
		header:        newHeader(mustHeaderName("APIKey", header)),
		authorization: newHeader(authorization),
		verify:        verify,
	}
	if verify == nil {
		panic("sash: APIKey: verify is nil; " +
			"give a func(ctx context.Context, presented string) (id string, err error) " +
			"that returns the identity of an issued key: unverified, each invented key would get a count of its own")
	}
	for i, option := range options {
		if option == nil {
			panic(fmt.Sprintf("sash: APIKey: option %d of %d is nil", i+1, len(options)))
		}
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

// KeyVerifier makes of a function that reports whether a key was issued what [APIKey] asks. The text that the client
// presented is then its identity, so known must report true for exactly one spelling of each key: compare bytes, not
// letters in any case, and never take a JWT, whose signature can be written in several ways.
func KeyVerifier(known func(context.Context, string) (bool, error)) func(context.Context, string) (string, error) {
	if known == nil {
		panic("sash: KeyVerifier: nil function; give a func(ctx context.Context, presented string) (bool, error) " +
			"that reports whether the key was issued")
	}
	return func(ctx context.Context, presented string) (string, error) {
		if ok, err := known(ctx, presented); err != nil || !ok {
			return "", err
		}
		return presented, nil
	}
}

// APIKeyOption is an option of [APIKey].
type APIKeyOption func(*apiKeys)

// HeaderOnly has the key taken from the header alone, and Authorization not read: for applications in which a bearer
// token is something else, such as a user's session. verify would be asked about each of them, and with
// [LimitFailures] each would count as a failure.
func HeaderOnly() APIKeyOption {
	return func(k *apiKeys) { k.headerOnly = true }
}

// apiKeys holds the arguments of APIKey. It does not change after construction.
type apiKeys struct {
	header, authorization header
	verify                func(ctx context.Context, presented string) (id string, err error)
	headerOnly            bool
	failures              *failures // nil: failures are not limited
	missing, unknown      *UnauthenticatedError
}

const authorization = "Authorization"

const (
	errTwoKeys      badRequestError = "the API keys of two identities came together"
	errMalformedKey badRequestError = "the API key is not known and is no visible ASCII without commas and blanks"
	errTwoBearers   badRequestError = "the header Authorization holds several credentials, " +
		"or Bearer beside a character that is no blank of HTTP"
)

// key is the Func that APIKey returns.
func (k *apiKeys) key(r *http.Request) (string, error) {
	presented, err := k.presented(r)
	if err != nil {
		return "", err
	}
	if presented == [2]string{} {
		return "", k.missing
	}
	address := ""
	if k.failures != nil {
		if address, err = k.failures.addressOf(r); err != nil {
			return "", err
		}
	}
	id := ""
	for _, text := range presented {
		if text == "" {
			continue
		}
		got, err := k.identify(r.Context(), address, text)
		switch {
		case err != nil:
			return "", err
		case got == "" && !isVisible(text):
			return "", errMalformedKey
		case got == "":
		case id != "" && got != id:
			return "", errTwoKeys
		default:
			id = got
		}
	}
	if id == "" {
		return "", k.unknown
	}
	return APIKeyKey(id), nil
}

// presented returns the API keys of a request: from the header, and from the bearer token. A key is empty if the
// request has none there; the second one is empty too if both are equal.
func (k *apiKeys) presented(r *http.Request) (keys [2]string, err error) {
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
	if !ok && holdsBearer(value) {
		return keys, errTwoBearers
	}
	if bearer != keys[0] {
		keys[1] = bearer
	}
	return keys, nil
}

// identify returns the identity of a key, or an empty one for an unknown key. With LimitFailures, it counts an
// unknown key as a failure of address.
func (k *apiKeys) identify(ctx context.Context, address, presented string) (id string, err error) {
	if k.failures == nil {
		return k.ask(ctx, presented)
	}
	return k.failures.identify(ctx, address, func() (string, error) { return k.ask(ctx, presented) })
}

// ask returns the answer of verify: an empty identity for an unknown key.
func (k *apiKeys) ask(ctx context.Context, presented string) (id string, err error) {
	switch id, err = k.verify(ctx, presented); {
	case err == nil:
		return id, nil
	case errors.Is(err, ErrNoKey):
		return "", nil
	}
	return "", &verifyError{err}
}

// cutBearer returns the token in a value of Authorization, and reports whether the value is a Bearer token.
func cutBearer(value string) (token string, ok bool) {
	const scheme = "Bearer"
	if len(value) <= len(scheme) || !strings.EqualFold(value[:len(scheme)], scheme) ||
		strings.IndexByte(blanks, value[len(scheme)]) < 0 {
		return "", false
	}
	return trim(value[len(scheme):]), true
}

// holdsBearer reports whether a parser may find a Bearer token where cutBearer found none: behind a comma, where a
// proxy has folded two lines into one, or beside a blank of Unicode, which strings.Fields takes for a blank.
func holdsBearer(value string) bool {
	const scheme = "Bearer"
	for found := true; found; {
		var credential string
		credential, value, found = strings.Cut(value, ",")
		credential = strings.TrimSpace(credential)
		if len(credential) > len(scheme) && strings.EqualFold(credential[:len(scheme)], scheme) &&
			!token.IsValid(credential[len(scheme):len(scheme)+1]) {
			return true
		}
	}
	return false
}

// isVisible reports whether s is visible ASCII without commas, so that all parsers of headers read it alike.
func isVisible(s string) bool {
	for _, c := range []byte(s) {
		if c <= ' ' || c > '~' || c == ',' {
			return false
		}
	}
	return true
}

// APIKeyKey returns the key under which [APIKey] counts an identity, for Reset, Usage and logs: apikey: and the
// first 128 bits of the SHA-256 of the identity in hex. With [KeyVerifier], the identity is the API key.
func APIKeyKey(id string) string {
	const prefix = "apikey:"
	sum := sha256.Sum256([]byte(id))
	var buf [len(prefix) + 2*apiKeyBytes]byte
	n := copy(buf[:], prefix)
	hex.Encode(buf[n:], sum[:apiKeyBytes])
	return string(buf[:])
}

// verifyError wraps the error of a verifier without showing its text.
type verifyError struct{ err error }

func (e *verifyError) Error() string { return "sash: the API key could not be verified" }

func (e *verifyError) Unwrap() error { return e.err }

package keyfuncs

import (
	"fmt"
	"net/http"
	"strings"
)

// Header names the client by the value of a request header. The key is
// header:x-tenant:acme, with the header's name in lower case and the value as
// it came, without the blanks around it.
//
// A client who can choose the value chooses its count, and can take a fresh one
// for each request: use Header only for what a gateway in front sets or has
// verified, and strips from what clients send. The value goes into the store as
// it is; for a secret use [APIKey].
//
// The error matches [ErrNoKey] if the header is missing or blank, and also if
// it came in more than one line: which of them would count is then a guess, and
// one of them may be the client's.
//
// Header panics if the name cannot be that of a header, or is Host, which
// net/http keeps in Request.Host.
func Header(name string) Func {
	name = mustHeaderName("Header", name)
	prefix := "header:" + strings.ToLower(name) + ":"
	var missing, repeated error = noHeader(name)
	return func(r *http.Request) (string, error) {
		value, lines := headerValue(r, name)
		switch {
		case lines > 1:
			return "", repeated
		case value == "":
			return "", missing
		}
		return prefix + value, nil
	}
}

// noHeader returns the errors for a header, made once so that a request that
// goes on to the next function pays nothing.
func noHeader(name string) (missing, repeated error) {
	return noKeyError("the header " + name + " is missing or blank"),
		noKeyError("the header " + name + " came more than once")
}

// headerValue returns the only value of a header without the blanks around it,
// and in how many lines the header came.
func headerValue(r *http.Request, canonicalName string) (value string, lines int) {
	values := r.Header[canonicalName]
	if len(values) != 1 {
		return "", len(values)
	}
	return trim(values[0]), 1
}

// trim takes off what HTTP counts as blank around a value, and no other
// characters.
func trim(s string) string {
	for len(s) > 0 && (s[0] == ' ' || s[0] == '\t') {
		s = s[1:]
	}
	for len(s) > 0 && (s[len(s)-1] == ' ' || s[len(s)-1] == '\t') {
		s = s[:len(s)-1]
	}
	return s
}

// mustHeaderName returns the name in the form in which net/http stores it.
func mustHeaderName(caller, name string) string {
	if name == "" {
		panic("keyfuncs: " + caller + ": empty header name; give one such as X-Tenant-Id")
	}
	if !isToken(name) {
		panic(fmt.Sprintf("keyfuncs: %s: %q cannot be the name of a header; give only its name, such as X-Tenant-Id", caller, name))
	}
	name = http.CanonicalHeaderKey(name)
	if name == "Host" {
		panic("keyfuncs: " + caller + ": net/http takes Host out of the headers; read Request.Host in a function of your own")
	}
	return name
}

// isToken reports whether s is a token of RFC 9110, section 5.6.2.
func isToken(s string) bool {
	for _, c := range []byte(s) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0:
		default:
			return false
		}
	}
	return s != ""
}

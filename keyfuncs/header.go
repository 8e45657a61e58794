package keyfuncs

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/sashlimit/sash/internal/token"
)

// maxValue is the length in bytes of the longest value of a header that is accepted. Proxies accept header lines of 4
// to 8 KiB unless they are told otherwise.
const maxValue = 8 << 10

// Header names the client by the value of a request header. The key is header:x-tenant:acme, with the header's name
// in lower case and the value as it came, without the blanks around it.
//
// A client that can choose the value chooses its count, and can take a fresh one for each request: use Header only
// for what a gateway in front sets or has verified. The gateway must replace what clients send, and not append to it.
// The value goes into the store as it is; for a secret use [APIKey].
//
// The error matches [ErrNoKey] if the header is missing or blank. It matches [ErrBadRequest] if the header came in
// more than one line, of which one may be the client's, or if its value has more than 8 KiB. Header panics if the
// name cannot be that of a header, or is Host, Transfer-Encoding or Trailer, which net/http takes out of the header.
func Header(name string) Func {
	name = mustHeaderName("Header", name)
	prefix := headerPrefix(name)
	h := newHeader(name)
	return func(r *http.Request) (string, error) {
		value, err := h.value(r)
		switch {
		case err != nil:
			return "", err
		case value == "":
			return "", h.missing
		}
		return prefix + value, nil
	}
}

// HeaderKey returns the key under which [Header] counts the value of the header with the given name, for Reset and
// Usage: header:x-tenant:acme. It returns "" if Header gives no such key: for a blank value, one of more than 8 KiB,
// or a name that is not a header's.
func HeaderKey(name, value string) string {
	value = trim(value)
	if !token.IsValid(name) || takenOut[http.CanonicalHeaderKey(name)] != "" || value == "" || len(value) > maxValue {
		return ""
	}
	return headerPrefix(name) + value
}

// headerPrefix returns the part of a key of Header before the value.
func headerPrefix(name string) string { return "header:" + strings.ToLower(name) + ":" }

// header reads a header that must not be repeated. Its errors are made in advance, so that a request that goes on to
// the next function allocates nothing for them.
type header struct {
	name                       string // canonical
	missing, repeated, tooLong error
}

// newHeader returns a reader of the header with the given canonical name.
func newHeader(canonicalName string) header {
	return header{
		name:     canonicalName,
		missing:  noKeyError("the header " + canonicalName + " is missing or blank"),
		repeated: badRequestError("the header " + canonicalName + " came more than once"),
		tooLong:  badRequestError(fmt.Sprintf("the header %s has more than %d bytes", canonicalName, maxValue)),
	}
}

// value returns the value without the blanks around it, empty if the header is missing or blank.
func (h *header) value(r *http.Request) (string, error) {
	lines := r.Header[h.name]
	switch {
	case len(lines) == 0:
		return "", nil
	case len(lines) > 1:
		return "", h.repeated
	case len(lines[0]) > maxValue:
		return "", h.tooLong
	}
	return trim(lines[0]), nil
}

// blanks are the characters that HTTP counts as blank around a value.
const blanks = " \t"

// trim removes the blanks from both ends of a value.
func trim(s string) string { return strings.Trim(s, blanks) }

// mustHeaderName returns the name in the form in which net/http stores it. It panics if the name cannot be that of a
// header.
func mustHeaderName(caller, name string) string {
	if name == "" {
		panic("sash: " + caller + ": empty header name; give one such as X-Tenant-Id")
	}
	if !token.IsValid(name) {
		panic(fmt.Sprintf("sash: %s: %q cannot be the name of a header; give only its name, such as X-Tenant-Id",
			caller, name))
	}
	name = http.CanonicalHeaderKey(name)
	if field := takenOut[name]; field != "" {
		panic("sash: " + caller + ": net/http takes " + name + " out of the headers; read Request." + field +
			" in a function of your own")
	}
	return name
}

// takenOut holds the headers that no request has in Request.Header, and the fields of Request that have them.
var takenOut = map[string]string{"Host": "Host", "Transfer-Encoding": "TransferEncoding", "Trailer": "Trailer"}

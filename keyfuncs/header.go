package keyfuncs

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/sashlimit/sash/internal/token"
)

// maxValue is the maximum length of a header's value in bytes. By default, proxies accept header lines of 4 to 8 KiB.
const maxValue = 8 << 10

// Header names the client by the value of a request header. The key is header:x-tenant:acme, with the header's name in
// lower case and the value without the blanks around it.
//
// A client that can choose the value can get a new count for each request: use Header only for a value that a gateway
// in front sets or has verified. The gateway must replace the header of the client, and not append to it. The value
// goes into the store as it is; for a secret use [APIKey].
//
// The error matches [ErrNoKey] if the header is missing or blank. It matches [ErrBadRequest] if the header comes in
// more than one line, since one may be the client's, or if its value has more than 8 KiB. Header panics on an invalid
// name, and on Host, Transfer-Encoding and Trailer, which net/http removes from the header.
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

// HeaderKey returns the key under which [Header] counts a value of the header with the given name, for Reset and Usage:
// header:x-tenant:acme. It returns "" where Header has no key: for a blank value, one of more than 8 KiB, and an
// invalid name.
func HeaderKey(name, value string) string {
	value = trim(value)
	if !token.IsValid(name) || removed[http.CanonicalHeaderKey(name)] != "" || value == "" || len(value) > maxValue {
		return ""
	}
	return headerPrefix(name) + value
}

// headerPrefix returns the prefix of a key of Header.
func headerPrefix(name string) string { return "header:" + strings.ToLower(name) + ":" }

// header reads a header that must not be repeated. It holds its errors, so that a request allocates none.
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

// value returns the value without the blanks around it, or "" if the header is missing or blank.
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

// mustHeaderName returns the canonical form of a header's name. It panics if the name is invalid or removed by
// net/http.
func mustHeaderName(caller, name string) string {
	if !token.IsValid(name) {
		panic(fmt.Sprintf("sash: %s: %q cannot be the name of a header; give only its name, such as X-Tenant-Id",
			caller, name))
	}
	name = http.CanonicalHeaderKey(name)
	if field := removed[name]; field != "" {
		panic("sash: " + caller + ": net/http removes " + name + " from the headers; read Request." + field +
			" in a function of your own")
	}
	return name
}

// removed maps the headers that net/http removes from Request.Header to the fields of Request with their values.
var removed = map[string]string{"Host": "Host", "Transfer-Encoding": "TransferEncoding", "Trailer": "Trailer"}

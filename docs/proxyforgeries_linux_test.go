package docs_test

import (
	"net/http"
	"slices"
	"strings"
)

// forgeries are the fields that a client sends to be taken for another one.
var forgeries = map[string]http.Header{
	"nothing":              {},
	"an address":           {"X-Forwarded-For": {"192.0.2.1"}},
	"another address":      {"X-Forwarded-For": {"192.0.2.2"}},
	"IPv6":                 {"X-Forwarded-For": {"2001:db8::1"}},
	"two lines":            {"X-Forwarded-For": {"192.0.2.1", "192.0.2.2"}},
	"many lines":           {"X-Forwarded-For": slices.Repeat([]string{"192.0.2.1"}, 20)},
	"a chain of proxies":   {"X-Forwarded-For": {"192.0.2.1, 127.0.0.1, 127.0.0.1"}},
	"the proxy itself":     {"X-Forwarded-For": {"127.0.0.1"}},
	"no address":           {"X-Forwarded-For": {"unknown"}},
	"an empty entry":       {"X-Forwarded-For": {"192.0.2.1, "}},
	"an empty line":        {"X-Forwarded-For": {""}},
	"a quote":              {"X-Forwarded-For": {`"192.0.2.1`}, "Forwarded": {`for="192.0.2.1`}},
	"a long list":          {"X-Forwarded-For": {strings.Repeat("192.0.2.1, ", 500) + "192.0.2.1"}},
	"X-Real-IP":            {"X-Real-Ip": {"192.0.2.1"}},
	"X-Real-IP, two lines": {"X-Real-Ip": {"192.0.2.1", "192.0.2.2"}},
	"Forwarded":            {"Forwarded": {"for=192.0.2.1"}},
	"Forwarded, two lines": {"Forwarded": {"for=192.0.2.1", `for="[2001:db8::1]"`}},
	"headers of CDNs": {"Cf-Connecting-Ip": {"192.0.2.1"}, "True-Client-Ip": {"192.0.2.1"},
		"Fly-Client-Ip": {"192.0.2.1"}, "X-Client-Ip": {"192.0.2.1"}, "X-Azure-Socketip": {"192.0.2.1"}},
	"underscores": {"X_Forwarded_For": {"192.0.2.1"}, "X_Real_IP": {"192.0.2.1"}},
	"fields to be removed": {"Connection": {"X-Forwarded-For, X-Real-IP, Forwarded"},
		"X-Forwarded-For": {"192.0.2.1"}},
	"fields to be removed, and an upgrade": {"Connection": {"Upgrade, X-Forwarded-For, X-Real-IP, Forwarded"},
		"Upgrade": {"websocket"}, "Sec-Websocket-Key": {"dGhlIHNhbXBsZSBub25jZQ=="}, "X-Forwarded-For": {"192.0.2.1"}},
	"everything": {"X-Forwarded-For": {"192.0.2.1", "127.0.0.1"}, "X-Real-Ip": {"192.0.2.1"},
		"Forwarded": {"for=192.0.2.1"}, "Cf-Connecting-Ip": {"192.0.2.1"}},
}

// arrivals are the forgeries that do arrive: what is wrong to believe behind a proxy, and
// shows that the test's requests would be believed.
var arrivals = []struct{ proxy, forgery, naming, key string }{
	{"nginx: append", "an address", "first entry", "192.0.2.1"},
	{"haproxy: append", "an address", "first entry", "192.0.2.1"},
	{"nginx: append", "an address", "hops 2", "ip:192.0.2.1"},
	{"haproxy: append", "an address", "hops 2", "ip:192.0.2.1"},
	{"nginx: append", "a chain of proxies", "hops 2", "ip:127.0.0.1"},
	{"nginx: append", "X-Real-IP", "X-Real-IP", "ip:192.0.2.1"},
	{"haproxy: append", "X-Real-IP", "X-Real-IP", "ip:192.0.2.1"},
	{"caddy: edge", "X-Real-IP", "X-Real-IP", "ip:192.0.2.1"},
	{"nginx: replace", "an address", "first entry", "127.0.0.9"},
	{"caddy: edge", "an address", "first entry", "127.0.0.9"},
}

package httpclient

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// ByHost is a key function for [NewTransport]: the host that a request is sent to, with its
// port unless that is the scheme's own, such as "host:api.example.com" or
// "host:[2001:db8::1]:8443". The field Host of the request does not matter.
//
// A name is in lower case and without the dot at its end, an address is in its shortest form
// with its zone if it has one, and a port has no zeros in front. Names are neither looked up nor
// translated: two names of one server, a name and its address, and a name beyond ASCII and its
// punycode are two keys.
func ByHost(r *http.Request) (string, error) {
	if r.URL == nil || hostOf(r.URL) == "" {
		return "", errors.New("sash: the request's URL has no host")
	}
	host, port := hostOf(r.URL), r.URL.Port()
	if n, err := strconv.ParseUint(port, 10, 16); err == nil {
		port = strconv.FormatUint(n, 10)
	}
	if port == "" || r.URL.Scheme == "http" && port == "80" || r.URL.Scheme == "https" && port == "443" {
		if strings.Contains(host, ":") {
			host = "[" + host + "]"
		}
		return "host:" + host, nil
	}
	return "host:" + net.JoinHostPort(host, port), nil
}

// hostOf returns the host of a URL in a canonical form.
func hostOf(u *url.URL) string {
	host := u.Hostname()
	if address, err := netip.ParseAddr(host); err == nil {
		return address.Unmap().String()
	}
	return strings.TrimSuffix(strings.ToLower(host), ".")
}

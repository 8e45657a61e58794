package nethttp

import (
	"errors"
	"net"
	"net/http"
	"strings"
)

// ByHost is a key function for [Transport]: the host that a request is sent to, in lower
// case, with its port unless that is the scheme's own, such as "host:api.example.com" or
// "host:[2001:db8::1]:8443". The field Host of the request does not matter.
func ByHost(r *http.Request) (string, error) {
	if r.URL == nil || r.URL.Hostname() == "" {
		return "", errors.New("sash: the request's URL has no host")
	}
	host := strings.TrimSuffix(strings.ToLower(r.URL.Hostname()), ".")
	port := r.URL.Port()
	if port == "" || r.URL.Scheme == "http" && port == "80" || r.URL.Scheme == "https" && port == "443" {
		if strings.Contains(host, ":") {
			host = "[" + host + "]"
		}
		return "host:" + host, nil
	}
	return "host:" + net.JoinHostPort(host, port), nil
}

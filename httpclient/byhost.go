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

// ByHost is a key function for [Transport]: the host that a request is sent to, with its
// port unless that is the scheme's own, such as "host:api.example.com" or
// "host:[2001:db8::1]:8443". The field Host of the request does not matter.
//
// One host has one key, whatever its spelling: a name is in lower case, in punycode if it is
// not ASCII, and without the dot at its end; an address is in its shortest form; a port has
// no zeros in front. Names are not looked up: two names of one server, or a name and its
// address, are two keys. So are other forms of a character than the usual one, such as an
// accent as a character of its own, and other forms of an IPv4 address, such as 127.1.
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

// hostOf returns the host of a URL in the form that all its spellings have.
func hostOf(u *url.URL) string {
	host := u.Hostname()
	if address, err := netip.ParseAddr(host); err == nil {
		return address.Unmap().String()
	}
	return strings.TrimSuffix(asciiName(strings.ToLower(host)), ".")
}

// asciiName returns the name of a host as net/http sends it, which knows punycode and has no
// function for it.
func asciiName(host string) string {
	if strings.IndexFunc(host, func(r rune) bool { return r >= 0x80 }) < 0 {
		return host
	}
	var head strings.Builder
	if err := (&http.Request{URL: new(url.URL), Host: host}).Write(&head); err != nil {
		return host
	}
	_, rest, _ := strings.Cut(head.String(), "\r\nHost: ")
	ascii, _, _ := strings.Cut(rest, "\r\n")
	return ascii
}

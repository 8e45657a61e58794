package report

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/sashlimit/sash/keyfuncs"
)

// Kinds are the ways to name a client: flags of the command, and parameters of sashadmin.
var Kinds = []string{"ip", "user", "header", "api-key-id", "key"}

// Prefix is a parameter of the kind ip: the number of bits of an IPv6 address that name a client.
const Prefix = "ipv6-prefix"

// ClientKey returns the key of the client that values name by one of Kinds. Empty values count as missing, since forms
// send them.
func ClientKey(named url.Values) (string, error) {
	kind := ""
	for _, k := range Kinds {
		switch {
		case named.Get(k) == "":
		case kind != "" || len(named[k]) > 1:
			return "", errors.New("more than one client is named: give one of " + strings.Join(Kinds, ", "))
		default:
			kind = k
		}
	}
	value, prefix := named.Get(kind), named.Get(Prefix)
	if prefix != "" && kind != "ip" {
		return "", errors.New(Prefix + " belongs to ip: give both or neither")
	}
	switch kind {
	case "":
		return "", errors.New("no client is named: give one of " + strings.Join(Kinds, ", "))
	case "ip":
		return ipKey(value, prefix)
	case "user":
		return keyfuncs.UserIDKey(value), nil
	case "header":
		name, text, _ := strings.Cut(value, "=")
		if key := keyfuncs.HeaderKey(name, text); key != "" {
			return key, nil
		}
		return "", fmt.Errorf("header %.60q names no client: give the header's name and a value of at most 8 KiB, "+
			"such as X-Tenant=acme", value)
	case "api-key-id":
		return keyfuncs.APIKeyKey(value), nil
	}
	return value, nil
}

// ipKey returns the key of the client with an address. The prefix may be empty.
func ipKey(text, prefix string) (string, error) {
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return "", fmt.Errorf("ip %.60q is not an address, such as 198.51.100.7 or 2001:db8::1; "+
			"for a key as it stands in logs there is key", text)
	}
	if prefix == "" {
		return keyfuncs.IPKey(addr, 0), nil
	}
	bits, err := strconv.Atoi(prefix)
	if err != nil || bits < 1 || bits > 128 {
		return "", fmt.Errorf(Prefix+" %.20q: give 1 to 128 bits", prefix)
	}
	return keyfuncs.IPKey(addr, bits), nil
}

// MaxAPIKey is the largest length in bytes of an API key for keyfuncs.APIKey.
const MaxAPIKey = 8 << 10

// APIKey returns the key of the client with the API key that is the only line of text. Its errors do not contain the
// API key.
func APIKey(text string) (string, error) {
	secret := strings.Trim(text, " \t\r\n")
	if secret == "" || len(secret) > MaxAPIKey || strings.ContainsAny(secret, "\r\n") {
		return "", fmt.Errorf("there must be one API key, in one line of at most %d bytes", MaxAPIKey)
	}
	return keyfuncs.APIKeyKey(secret), nil
}

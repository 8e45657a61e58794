package sashadmin

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/sashlimit/sash/keyfuncs"
)

// wrongQuery returns an error for a request with a wrong query.
func wrongQuery(format string, args ...any) error {
	return &statusError{http.StatusBadRequest, fmt.Errorf(format, args...)}
}

// clientKey returns the key of the client that a query names. Parameters that are empty
// count as missing, since the forms of the pages send them.
func clientKey(query url.Values) (string, error) {
	kind := ""
	for _, k := range []string{"ip", "user", "header", "api_key_id", "key"} {
		switch {
		case query.Get(k) == "":
		case kind != "" || len(query[k]) > 1:
			return "", wrongQuery("more than one client is named: give one of " + kinds)
		default:
			kind = k
		}
	}
	if bits := query.Get("bits"); bits != "" && kind != "ip" {
		return "", wrongQuery("bits belongs to ip: give both or neither")
	}
	switch kind {
	case "ip":
		return ipKey(query.Get("ip"), query.Get("bits"))
	case "user":
		return keyfuncs.UserIDString(query.Get("user")), nil
	case "header":
		name, value, _ := strings.Cut(query.Get("header"), "=")
		key := keyfuncs.HeaderString(name, value)
		if key == "" {
			return "", wrongQuery("header is %.60q: give the name of a header and a value of at most 8 KiB, "+
				"such as X-Tenant=acme", query.Get("header"))
		}
		return key, nil
	case "api_key_id":
		return keyfuncs.APIKeyString(query.Get("api_key_id")), nil
	case "key":
		return query.Get("key"), nil
	}
	return "", wrongQuery("no client is named: give one of " + kinds)
}

// kinds are the parameters that name a client.
const kinds = "ip, user, header, api_key_id and key"

// ipKey returns the key of the client with an address. bits may be empty.
func ipKey(text, bits string) (string, error) {
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return "", wrongQuery("%.60q is not an address, such as 198.51.100.7 or 2001:db8::1", text)
	}
	if bits == "" {
		return keyfuncs.IPString(addr, 0), nil
	}
	n, err := strconv.Atoi(bits)
	if err != nil || n < 1 || n > 128 {
		return "", wrongQuery("bits is %.20q: give 1 to 128", bits)
	}
	return keyfuncs.IPString(addr, n), nil
}

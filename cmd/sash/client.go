package main

import (
	"flag"
	"fmt"
	"io"
	"net/netip"
	"strings"

	"github.com/sashlimit/sash/keyfuncs"
)

// client are the flags that name a client.
type client struct {
	flags                           *flag.FlagSet
	ip, user, header, apiKeyID, key string
	bits                            int
	apiKeyStdin                     bool
}

// define defines the flags.
func (c *client) define(flags *flag.FlagSet) {
	c.flags = flags
	flags.StringVar(&c.ip, "ip", "", "")
	flags.IntVar(&c.bits, "ipv6-prefix", 0, "")
	flags.StringVar(&c.user, "user", "", "")
	flags.StringVar(&c.header, "header", "", "")
	flags.StringVar(&c.apiKeyID, "api-key-id", "", "")
	flags.BoolVar(&c.apiKeyStdin, "api-key-stdin", false, "")
	flags.StringVar(&c.key, "key", "", "")
}

// given returns the names of the flags that name a client and were given, and whether
// -ipv6-prefix was.
func (c *client) given() (names []string, bits bool) {
	c.flags.Visit(func(f *flag.Flag) {
		switch f.Name {
		case "ip", "user", "header", "api-key-id", "key":
			names = append(names, f.Name)
		case "api-key-stdin":
			if c.apiKeyStdin {
				names = append(names, f.Name)
			}
		case "ipv6-prefix":
			bits = true
		}
	})
	return names, bits
}

// name returns the key under which the client is counted.
func (c *client) name(stdin io.Reader) (string, error) {
	names, bits := c.given()
	switch {
	case len(names) == 0:
		return "", wrongUsage("no client is named: give -ip, -user, -header, -api-key-id, -api-key-stdin or -key")
	case len(names) > 1:
		return "", wrongUsage("-%s both name a client: give one of them", strings.Join(names, " and -"))
	case bits && names[0] != "ip":
		return "", wrongUsage("-ipv6-prefix belongs to -ip, not to -%s", names[0])
	case bits && (c.bits < 1 || c.bits > 128):
		return "", wrongUsage("-ipv6-prefix %d: give 1 to 128 bits", c.bits)
	}
	key := c.key
	switch names[0] {
	case "ip":
		return c.ipKey()
	case "user":
		key = keyfuncs.UserIDString(c.user)
	case "header":
		return c.headerKey()
	case "api-key-id":
		if c.apiKeyID != "" {
			key = keyfuncs.APIKeyString(c.apiKeyID)
		}
	case "api-key-stdin":
		return readAPIKey(stdin)
	}
	if key == "" {
		return "", wrongUsage("-%s is empty, and no client is named so", names[0])
	}
	return key, nil
}

// ipKey returns the key of the client with the address of -ip.
func (c *client) ipKey() (string, error) {
	addr, err := netip.ParseAddr(c.ip)
	if err != nil {
		return "", wrongUsage("-ip %.60q is not an address, such as 198.51.100.7 or 2001:db8::1; "+
			"for a key as it stands in logs there is -key", c.ip)
	}
	return keyfuncs.IPString(addr, c.bits), nil
}

// headerKey returns the key of the client with the value of -header.
func (c *client) headerKey() (string, error) {
	name, value, ok := strings.Cut(c.header, "=")
	key := keyfuncs.HeaderString(name, value)
	if !ok || key == "" {
		return "", wrongUsage("-header %.60q names no client: give the name of the header and a value "+
			"of at most 8 KiB, such as X-Tenant=acme", c.header)
	}
	return key, nil
}

// maxAPIKey is the length in bytes of the longest API key that keyfuncs.APIKey takes.
const maxAPIKey = 8 << 10

// readAPIKey returns the key of the client with the API key that stdin has. No error has
// the API key.
func readAPIKey(stdin io.Reader) (string, error) {
	text, err := io.ReadAll(io.LimitReader(stdin, maxAPIKey+100))
	if err != nil {
		return "", fmt.Errorf("sash: the API key could not be read: %w", err)
	}
	key := strings.Trim(string(text), " \t\r\n")
	switch {
	case key == "":
		return "", wrongUsage("-api-key-stdin: the standard input is empty: give the API key there")
	case len(key) > maxAPIKey, strings.ContainsAny(key, "\r\n"):
		return "", wrongUsage("-api-key-stdin: the standard input has more than one line, or more than %d bytes: "+
			"give one API key there", maxAPIKey)
	}
	return keyfuncs.APIKeyString(key), nil
}

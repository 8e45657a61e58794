package keyfuncs_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/sashlimit/sash/keyfuncs"
)

// BenchmarkRemoteIP is the key function that most requests pay for.
func BenchmarkRemoteIP(b *testing.B) {
	for name, peer := range map[string]string{
		"IPv4":   "198.51.100.7:52241",
		"IPv6":   "[2001:db8:1:2:3:4:5:6]:52241",
		"mapped": "[::ffff:198.51.100.7]:52241",
	} {
		b.Run(name, func(b *testing.B) { benchmark(b, keyfuncs.RemoteIP, request(peer)) })
	}
}

// BenchmarkMegabyte is the most that a client can make a key function do with a
// header of a megabyte, which is what net/http takes by default.
func BenchmarkMegabyte(b *testing.B) {
	repeated := func(unit, rest string) []string { return []string{strings.Repeat(unit, 1<<20/len(unit)) + rest} }
	bearer := keyfuncs.APIKey("X-API-Key", known)
	header := keyfuncs.APIKey("X-API-Key", func(_ context.Context, key string) (string, error) { return key, nil })
	for name, test := range map[string]struct {
		f      keyfuncs.Func
		header string
		values []string
	}{
		"APIKey":              {header, "X-Api-Key", repeated("k", "")},
		"Bearer":              {bearer, "Authorization", repeated("k", "")},
		"Bearer key":          {bearer, "Authorization", []string{"Bearer " + strings.Repeat("k", 1<<20)}},
		"Header":              {keyfuncs.Header("X-Tenant"), "X-Tenant", repeated("t", "")},
		"FromHeader":          {keyfuncs.IP(ten, keyfuncs.FromHeader("X-Real-IP")), "X-Real-Ip", repeated("1", "")},
		"forwarded for":       {keyfuncs.IP(ten), "X-Forwarded-For", repeated("10.0.0.9,", "10.0.0.9")},
		"forwarded for, open": {keyfuncs.IP(ten), "X-Forwarded-For", repeated("1", "")},
	} {
		r := &http.Request{RemoteAddr: proxy, Header: http.Header{test.header: test.values}}
		b.Run(name, func(b *testing.B) { benchmark(b, test.f, r) })
	}
}

func benchmark(b *testing.B, f keyfuncs.Func, r *http.Request) {
	b.ReportAllocs()
	for b.Loop() {
		_, _ = f(r)
	}
}

// BenchmarkAPIKey is a known key, and what a limit of failures adds to it.
func BenchmarkAPIKey(b *testing.B) {
	failures := keyfuncs.LimitFailures(failureLimiter(10), keyfuncs.RemoteIP)
	for _, test := range []struct {
		name    string
		options []keyfuncs.APIKeyOption
	}{{"alone", nil}, {"LimitFailures", []keyfuncs.APIKeyOption{failures}}} {
		f := keyfuncs.APIKey("X-API-Key", known, test.options...)
		b.Run(test.name, func(b *testing.B) { benchmark(b, f, request("198.51.100.7:1", "X-API-Key: demo-key-1")) })
	}
}

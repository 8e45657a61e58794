package sashgrpc_test

import (
	"net/http"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/nethttp"
)

// TestOptionsOfNethttp: options of package nethttp know a call by its key, its method and its metadata.
func TestOptionsOfNethttp(t *testing.T) {
	for name, option := range map[string]nethttp.Option{
		"SkipKeys":  nethttp.SkipKeys(func(key string) bool { return key == "user:1" }),
		"SkipPaths": nethttp.SkipPaths("POST " + unaryMethod),
		"WithLimits": nethttp.WithLimits(func(r *http.Request) ([]core.Limit, error) {
			if r.Header.Get("X-Plan") == "pro" {
				return []core.Limit{core.PerHour(2)}, nil
			}
			return nil, nil
		}),
	} {
		client := serve(t, new(service), both(limiter(t, nil, core.PerHour(1)), user, option))
		for range 2 {
			_, err := callUnary(withMetadata(t.Context(), "x-plan", "pro"), client, "")
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	client := serve(t, new(service), both(limiter(t, nil, core.PerHour(1)), user))
	for _, want := range []codes.Code{codes.OK, codes.ResourceExhausted} { // without an option
		_, err := callUnary(withMetadata(t.Context(), "x-plan", "pro"), client, "")
		wantCode(t, err, want)
	}
}

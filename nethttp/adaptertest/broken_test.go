package adaptertest

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/keyfuncs"
	"github.com/sashlimit/sash/nethttp"
)

// wrap returns the correct Middleware, wrapped by serve: serve gets a request, the guard and the handler.
func wrap(serve func(c *call, guard func(next handler) handler, next handler) error) maker {
	return func(l *core.Limiter, key keyfuncs.Func, opts ...nethttp.Option) func(handler) handler {
		guard := correct(l, key, opts...)
		return func(next handler) handler {
			return func(c *call) error { return serve(c, guard, next) }
		}
	}
}

// afterRefusal returns the correct Middleware, with a call of after for each refusal and its error.
func afterRefusal(after func(c *call, next handler, err error) error) maker {
	return wrap(func(c *call, guard func(handler) handler, next handler) error {
		reached := false
		err := guard(func(c *call) error { reached = true; return next(c) })(c)
		if reached {
			return err
		}
		return after(c, next, err)
	})
}

// withOption returns the correct Middleware with one more option.
func withOption(option nethttp.Option) maker {
	return func(l *core.Limiter, key keyfuncs.Func, opts ...nethttp.Option) func(handler) handler {
		return correct(l, key, append(slices.Clip(opts), option)...)
	}
}

var garbage []byte

// broken holds adapters with a mistake, and the subtests that fail because of it.
var broken = []struct {
	name  string
	make  maker
	fails string
}{
	{"drops its options", func(l *core.Limiter, key keyfuncs.Func, _ ...nethttp.Option) func(handler) handler {
		return correct(l, key)
	}, "WrongArguments CustomRefusals"},

	{"uses the path as the label", withOption(nethttp.WithLabel(func(r *http.Request) string { return r.URL.Path })),
		"Labels"},

	{"counts twice", wrap(func(c *call, guard func(handler) handler, next handler) error {
		return guard(guard(next))(c)
	}), "GroupAndRoute"},

	{"forgets the request's context", wrap(func(c *call, guard func(handler) handler, next handler) error {
		c.r = c.r.WithContext(context.Background())
		return guard(next)(c)
	}), "ClientLeft"},

	{"hides what the ResponseWriter can do", wrap(func(c *call, guard func(handler) handler, next handler) error {
		c.w = struct{ http.ResponseWriter }{c.w}
		return guard(next)(c)
	}), "ResponseController"},

	{"copies the request", wrap(func(c *call, guard func(handler) handler, next handler) error {
		c.r = c.r.WithContext(c.r.Context())
		return guard(next)(c)
	}), "RequestOutside"},

	{"hands on its own request", wrap(func(c *call, guard func(handler) handler, next handler) error {
		r := c.r
		return guard(func(c *call) error { c.r = r; return next(c) })(c)
	}), "DecisionInContext"},

	{"hands on its own ResponseWriter", wrap(func(c *call, guard func(handler) handler, next handler) error {
		w := c.w
		return guard(func(c *call) error { c.w = w; return next(c) })(c)
	}), "CountWhen CountWhenElsewhere CostAfter"},

	{"allocates", wrap(func(c *call, guard func(handler) handler, next handler) error {
		garbage = make([]byte, 100)
		return guard(next)(c)
	}), "Allocations"},

	{"swallows the errors of handlers", wrap(func(c *call, guard func(handler) handler, next handler) error {
		return guard(func(c *call) error { _ = next(c); return nil })(c)
	}), "HandlerErrors"},

	{"swallows errors of refusals", afterRefusal(func(*call, handler, error) error { return nil }), "RefusalErrors"},

	{"serves refusals", afterRefusal(func(c *call, next handler, _ error) error { return next(c) }), "Refusals"},
}

// brokenName is the environment variable with the name of the adapter for a process whose test must fail.
const brokenName = "ADAPTERTEST_BROKEN"

// TestBroken: each broken adapter fails at its subtests, without a panic that would end the other tests. Each subtest
// has a broken adapter.
func TestBroken(t *testing.T) {
	of := os.Getenv(brokenName)
	failed := map[string]bool{}
	for _, c := range broken {
		if c.name == of {
			Run(t, tiny(c.make))
			return
		}
		for _, name := range strings.Fields(c.fails) {
			failed[name] = true
		}
	}
	for _, c := range suite {
		if !failed[c.name] {
			t.Errorf("no broken adapter fails at %s", c.name)
		}
		delete(failed, c.name)
	}
	if len(failed) > 0 {
		t.Errorf("there are no subtests %v", failed)
	}
	for _, c := range broken {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			names := strings.Fields(c.fails)
			run := exec.Command(os.Args[0], "-test.v", "-test.run", "^TestBroken$/^("+strings.Join(names, "|")+")$")
			run.Env = append(os.Environ(), brokenName+"="+c.name)
			out, _ := run.CombinedOutput()
			if strings.Contains(string(out), "\npanic: ") {
				t.Errorf("the suite panics: %s", out)
			}
			for _, name := range names {
				if !strings.Contains(string(out), "--- FAIL: TestBroken/"+name+" (") {
					t.Errorf("%s does not fail: %s", name, out)
				}
			}
		})
	}
}

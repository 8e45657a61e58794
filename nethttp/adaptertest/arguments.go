package adaptertest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/keyfuncs"
	"github.com/sashlimit/sash/nethttp"
	"github.com/sashlimit/sash/nethttp/adapter"
)

// wrongArguments checks that the middleware panics on wrong arguments at construction, with an error of this module.
func wrongArguments(t *testing.T, framework Adapter) {
	l := newLimiter(core.PerMinute(3))
	for name, wrong := range map[string]Step{
		"limiter":     {Key: keyfuncs.RemoteIP},
		"key":         {Limiter: l},
		"path":        step(l, nethttp.SkipPaths("health")),
		"nil option":  step(l, nil),
		"other's own": step(l, adapter.Skip(func(struct{}) bool { return true })),
	} {
		func() {
			defer func() {
				if p := recover(); p == nil || !strings.HasPrefix(fmt.Sprint(p), "sash: ") {
					t.Errorf("%s: the panic is %v, want one that begins with sash:", name, p)
				}
			}()
			framework.Build(Tree{Routes: []Route{route("GET", "/", []Step{wrong}, page)}})
		}()
	}
}

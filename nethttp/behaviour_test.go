package nethttp_test

import (
	"net/http"
	"testing"

	"github.com/sashlimit/sash/nethttp"
	"github.com/sashlimit/sash/nethttp/adaptertest"
)

// The suite that the adapters pass.
func TestBehaviour(t *testing.T) {
	behind := func(steps []adaptertest.Step, h http.Handler) http.Handler {
		for i := len(steps) - 1; i >= 0; i-- {
			s, next := steps[i], h
			if s.Spy == nil {
				h = nethttp.Middleware(s.Limiter, s.Key, s.Options...)(next)
				continue
			}
			h = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				s.Spy()
				next.ServeHTTP(w, r)
			})
		}
		return h
	}
	adaptertest.Run(t, adaptertest.Adapter{
		Build: func(t adaptertest.Tree) http.Handler {
			group := http.NewServeMux()
			for _, r := range t.Routes {
				pattern := r.Pattern
				if pattern == "/" {
					pattern = "/{$}"
				}
				group.Handle(r.Method+" "+t.Prefix+pattern, behind(r.Steps, r.Handler))
			}
			root := http.NewServeMux()
			root.Handle(t.Prefix+"/", behind(t.Group, group))
			return behind(t.Use, root)
		},
		RootLabel:  "/api/", // the mux of the root hides that of the group
		GroupLabel: "GET /api/items/{id}",
		RouteLabel: "GET /api/items/{id}",
	})
}

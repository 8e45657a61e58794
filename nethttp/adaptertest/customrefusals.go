package adaptertest

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/sashlimit/sash/core"
)

// customRefusals checks that a function of WithRefusal that writes no response, or only an interim one, does not make a
// refusal a 200, and that its response reaches the client unchanged.
func customRefusals(t *testing.T, adapter Adapter) {
	for _, c := range outcomes {
		for name, option := range adapter.refusals() {
			if c.refusal == "" {
				continue
			}
			t.Run(name+" "+c.name, func(t *testing.T) {
				var logged strings.Builder
				handler := func(http.ResponseWriter, *http.Request) {
					t.Error("a refused request reached the handler")
				}
				refuse := func(w http.ResponseWriter, r *http.Request, _ core.Decision) error {
					c.handler(w, r)
					return nil
				}
				h := adapter.Build(rootTree([]Step{exhausted(option(refuse))}, "POST", "/", handler))
				status, body := exchange(t, h, &logged)
				got := fmt.Sprint(status, " ", body)
				want, any := strings.CutSuffix(c.refusal, "?")
				if got != want && !(any && strings.HasPrefix(got, want)) {
					t.Fatalf("got %q; want %q", got, c.refusal)
				}
				if status > 0 && logged.Len() > 0 {
					t.Errorf("the server logged %q", &logged)
				}
			})
		}
	}
}

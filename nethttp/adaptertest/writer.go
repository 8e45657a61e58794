package adaptertest

import (
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/nethttp"
)

// responseController checks that all methods of an http.ResponseController work behind a
// guard, behind one that follows the handler, and in a function that refuses.
func responseController(t *testing.T, adapter Adapter) {
	control := func(w http.ResponseWriter) {
		c := http.NewResponseController(w)
		soon := time.Now().Add(time.Minute)
		err := errors.Join(c.SetReadDeadline(soon), c.SetWriteDeadline(soon), c.EnableFullDuplex(), c.Flush())
		if err != nil {
			t.Errorf("got the error %v, want none", err)
		}
		if _, ok := w.(http.Flusher); !ok {
			t.Error("got a writer that is no http.Flusher")
		}
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Errorf("got the error %v of Hijack, want none", err)
			return
		}
		conn.Close()
	}
	steps := map[string]Step{
		"plain":    step(newLimiter(core.PerMinute(2))),
		"followed": step(newLimiter(core.PerMinute(2)), counted),
	}
	for name, option := range adapter.refusals() {
		refuse := func(w http.ResponseWriter, _ *http.Request, _ core.Decision) error {
			control(w)
			return nil
		}
		steps["refused by "+name] = exhausted(option(refuse))
	}
	for name, guard := range steps {
		t.Run(name, func(t *testing.T) {
			called := false
			exchange(t, adapter.Build(rootTree([]Step{guard}, "POST", "/",
				func(w http.ResponseWriter, _ *http.Request) { called = true; control(w) })), io.Discard)
			if refused := name != "plain" && name != "followed"; called == refused {
				t.Errorf("got the handler called: %v, want %v", called, !refused)
			}
		})
	}
}

// counted is an option that follows the handler and changes nothing.
var counted = nethttp.CountWhen(func(*http.Request, int) bool { return true })

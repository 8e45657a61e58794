package adaptertest

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/sashlimit/sash/core"
)

// check returns an error if the description is wrong, so that no subtest blames the
// adapter for it.
func (adapter Adapter) check() error {
	unused := func(http.ResponseWriter, *http.Request, core.Decision) error { return nil }
	switch status := adapter.ErrorStatus; {
	case adapter.Build == nil:
		return errors.New("sash: adaptertest: Adapter.Build is nil: give a function that makes a server of a Tree")
	case status != 0 && (status < 400 || status > 599):
		return fmt.Errorf("sash: adaptertest: Adapter.ErrorStatus is %d: give the status of an error, 400 to 599, "+
			"or 0 if handlers return no errors", status)
	case adapter.WithRefusal != nil && adapter.WithRefusal(unused) == nil:
		return errors.New("sash: adaptertest: Adapter.WithRefusal returns nil: return the adapter's option, " +
			"or leave the field out")
	}
	if err := adapter.checkTree("/api", "/items/{id}", "/api/items/17"); err != nil {
		return err
	}
	if err := adapter.checkTree("", "/", "/"); err != nil {
		return err
	}
	return adapter.checkErrors()
}

// checkTree returns an error if Build does not mount a tree as it is described. The pattern
// is that of two routes, and target a path of theirs.
func (adapter Adapter) checkTree(prefix, pattern, target string) error {
	var ran []string
	spies := func(name string) []Step { return []Step{{Spy: func() { ran = append(ran, name) }}} }
	handler := func(name string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			ran = append(ran, name)
			w.WriteHeader(http.StatusAccepted)
		}
	}
	h := adapter.Build(Tree{Use: spies("Use"), Prefix: prefix, Group: spies("Group"), Routes: []Route{
		route("GET", pattern, spies("Steps"), handler("Handler")),
		route("POST", pattern, nil, handler("the other Handler")),
	}})
	if h == nil {
		return errors.New("sash: adaptertest: Adapter.Build returns nil: return the handler that serves the Tree")
	}
	for _, c := range []struct {
		method, target string
		ran            string // what runs, or begins to
		status         int
	}{
		{"GET", target, "Use, Group, Steps, Handler", http.StatusAccepted},
		{"POST", target, "Use, Group, the other Handler", http.StatusAccepted},
		{"GET", "/nowhere", "Use", http.StatusNotFound},
	} {
		ran = nil
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(c.method, c.target, nil))
		got := strings.Join(ran, ", ")
		missed := c.status == http.StatusNotFound
		if w.Code != c.status || !missed && got != c.ran ||
			missed && (!strings.HasPrefix(got, c.ran) || strings.Contains(got, "Handler")) {
			return fmt.Errorf("sash: adaptertest: Adapter.Build: of a Tree with the Prefix %q and the Pattern %q, "+
				"%s %s ran [%s] and got %d, want [%s] and %d",
				prefix, pattern, c.method, c.target, got, w.Code, c.ran, c.status)
		}
	}
	return nil
}

var errHandler = errors.New("the handler's own error")

// checkErrors returns an error if the framework does not answer the Err of a route by
// ErrorStatus.
func (adapter Adapter) checkErrors() error {
	if adapter.ErrorStatus == 0 {
		return nil
	}
	h := adapter.Build(failing(func(http.ResponseWriter, *http.Request) {}))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/work", nil))
	if w.Code != adapter.ErrorStatus {
		return fmt.Errorf("sash: adaptertest: Adapter.ErrorStatus is %d, but a Route with an Err got %d: "+
			"return Err from the handler that Build makes, or give 0 if handlers return no errors",
			adapter.ErrorStatus, w.Code)
	}
	return nil
}

package adaptertest

import (
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/sashlimit/sash/nethttp"
)

// building returns the description of the right adapter, but for a change of the trees that
// Build gets.
func building(change func(*Tree)) Adapter {
	adapter := tiny(right)
	build := adapter.Build
	adapter.Build = func(t Tree) http.Handler {
		t.Routes = slices.Clone(t.Routes)
		change(&t)
		return build(t)
	}
	return adapter
}

// wrong is a wrong description, and what is said about it.
type wrong struct {
	adapter Adapter
	says    string
}

// TestCheck: a wrong description is told of, with what is wrong about it.
func TestCheck(t *testing.T) {
	ofTree := func(change func(*Tree), says string) wrong { return wrong{building(change), says} }
	nothing, badStatus, badRefusal, falseStatus := tiny(right), tiny(right), tiny(right), tiny(right)
	nothing.Build = func(Tree) http.Handler { return nil }
	badStatus.ErrorStatus = 200
	badRefusal.WithRefusal = func(Refusal) nethttp.Option { return nil }
	falseStatus.ErrorStatus = 418
	for name, c := range map[string]wrong{
		"nothing":              {Adapter{}, "Adapter.Build is nil: give a function"},
		"a Build of nothing":   {nothing, "Adapter.Build returns nil"},
		"a status":             {badStatus, "Adapter.ErrorStatus is 200: give the status of an error"},
		"another ErrorStatus":  {falseStatus, "Adapter.ErrorStatus is 418, but a Route with an Err got 500"},
		"an option of nothing": {badRefusal, "Adapter.WithRefusal returns nil"},
		"no Use": ofTree(func(t *Tree) { t.Use = nil },
			"GET /api/items/17 ran [Group, Steps, Handler] and got 202, want [Use, Group, Steps, Handler] and 202"),
		"no Group":  ofTree(func(t *Tree) { t.Group = nil }, "GET /api/items/17 ran [Use, Steps, Handler]"),
		"no Steps":  ofTree(func(t *Tree) { t.Routes[0].Steps = nil }, "ran [Use, Group, Handler]"),
		"no Prefix": ofTree(func(t *Tree) { t.Prefix = "" }, "GET /api/items/17 ran [Use] and got 404"),
		"Use in the group": ofTree(func(t *Tree) { t.Use, t.Group = nil, slices.Concat(t.Use, t.Group) },
			"GET /nowhere ran [] and got 404, want [Use] and 404"),
		"another order": ofTree(func(t *Tree) { t.Use, t.Group = t.Group, t.Use }, "ran [Group, Use, Steps"),
		"no Err":        ofTree(func(t *Tree) { t.Routes[0].Err = nil }, "but a Route with an Err got 200"),
		"one handler for all": ofTree(func(t *Tree) { t.Routes[1].Handler = t.Routes[0].Handler },
			"POST /api/items/17"),
		"/ for all paths": ofTree(func(t *Tree) {
			if t.Routes[0].Pattern == "/" {
				t.Routes[0].Pattern = "/{rest...}"
			}
		}, `the Prefix "" and the Pattern "/", GET /nowhere ran [Use, Group, Steps, Handler]`),
	} {
		err := c.adapter.check()
		if err == nil || !strings.HasPrefix(err.Error(), "sash: adaptertest: ") ||
			!strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want an error with %s", name, err, c.says)
		}
	}
	if err := tiny(right).check(); err != nil {
		t.Error(err)
	}
}

// TestRunChecks: Run tells of a wrong description and runs no subtest.
func TestRunChecks(t *testing.T) {
	if os.Getenv(brokenName) != "" {
		Run(t, Adapter{})
		return
	}
	run := exec.Command(os.Args[0], "-test.v", "-test.run", "^TestRunChecks$")
	run.Env = append(os.Environ(), brokenName+"=all of it")
	out, err := run.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "sash: adaptertest: Adapter.Build is nil") ||
		strings.Contains(string(out), "TestRunChecks/") {
		t.Errorf("%v: %s", err, out)
	}
}

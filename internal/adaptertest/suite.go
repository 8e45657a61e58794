package adaptertest

import (
	"net/http"
	"slices"
	"testing"

	"github.com/sashlimit/sash/nethttp"
)

// Run runs the suite: as it is, and once more with an option for each guard that follows the
// handler and changes nothing.
func Run(t *testing.T, f Framework) {
	for _, c := range slices.Concat(suite, ofFollowing, ofPlain) {
		t.Run(c.name, func(t *testing.T) { c.test(t, f) })
	}
	for _, c := range suite {
		t.Run(c.name+"Followed", func(t *testing.T) { c.test(t, f.followed()) })
	}
}

// followed returns the framework with CountWhen in each guard, which counts all requests.
func (f Framework) followed() Framework {
	build := f.Build
	counted := nethttp.CountWhen(func(*http.Request, int) bool { return true })
	with := func(steps []Step) []Step {
		steps = slices.Clone(steps)
		for i := range steps {
			steps[i].Options = append(slices.Clip(steps[i].Options), counted)
		}
		return steps
	}
	f.Build = func(t Tree) http.Handler {
		t.Use, t.Group, t.Routes = with(t.Use), with(t.Group), slices.Clone(t.Routes)
		for i := range t.Routes {
			t.Routes[i].Steps = with(t.Routes[i].Steps)
		}
		return build(t)
	}
	return f
}

type suiteTest struct {
	name string
	test func(*testing.T, Framework)
}

// suite are the tests that hold for all guards.
var suite = []suiteTest{
	{"GroupAndRoute", groupAndRoute},
	{"ManyPaths", manyPaths},
	{"SharedRules", sharedRules},
	{"Exclusions", exclusions},
	{"ExcludedMethods", excludedMethods},
	{"Prefixes", prefixes},
	{"Labels", labels},
	{"CountedTwice", countedTwice},
	{"CountedOnce", countedOnce},
	{"Tiers", tiers},
	{"LimitsByRequest", limitsByRequest},
	{"SetLimits", setLimits},
	{"Shadow", shadow},
	{"SkipKeys", skipKeys},
	{"Refusals", refusals},
	{"EndedRequest", endedRequest},
	{"FailOpen", failOpen},
	{"CustomRefusals", customRefusals},
	{"TimeoutHandlers", timeoutHandlers},
	{"Panics", panicking},
	{"Streaming", streaming},
	{"WebSocket", webSocket},
	{"ResponseController", responseController},
	{"CORS", cors},
	{"HTTP10", http10},
	{"KeepAlive", keepAlive},
	{"SlowBodies", slowBodies},
	{"KeepAliveAfterRefusedBody", keepAliveAfterRefusedBody},
	{"RefusedBodyH2C", refusedBodyH2C},
	{"H2C", h2c},
	{"ReverseProxy", reverseProxy},
}

// ofPlain are the tests that hold for guards which do not follow the handler.
var ofPlain = []suiteTest{
	{"Allocations", allocations},
	{"All", all},
}

// ofFollowing are the tests of options that follow the handler.
var ofFollowing = []suiteTest{
	{"CountWhen", countWhen},
	{"CountWhenElsewhere", countWhenElsewhere},
	{"ClientLeft", clientLeft},
	{"Unreturned", unreturned},
	{"Login", login},
	{"CostAfter", costAfter},
	{"DecisionInContext", decisionInContext},
	{"SettledByHandler", settledByHandler},
}

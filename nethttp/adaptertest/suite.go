package adaptertest

import (
	"net/http"
	"slices"
	"testing"

	"github.com/sashlimit/sash/nethttp"
)

// Run runs the suite as subtests of t, one after the other; the package comment says what
// each proves. t fails at once if the Adapter is described wrongly.
func Run(t *testing.T, adapter Adapter) {
	if err := adapter.check(); err != nil {
		t.Fatal(err)
	}
	for _, c := range slices.Concat(suite, ofFollowing, ofPlain) {
		if c.applies(adapter) {
			t.Run(c.name, func(t *testing.T) { c.test(t, adapter) })
		}
	}
	for _, c := range suite {
		t.Run(c.name+"Followed", func(t *testing.T) { c.test(t, adapter.followed()) })
	}
}

// followed returns the adapter with a CountWhen in each guard, which counts all requests.
func (adapter Adapter) followed() Adapter {
	build := adapter.Build
	counted := nethttp.CountWhen(func(*http.Request, int) bool { return true })
	with := func(steps []Step) []Step {
		steps = slices.Clone(steps)
		for i := range steps {
			steps[i].Options = append(slices.Clip(steps[i].Options), counted)
		}
		return steps
	}
	adapter.Build = func(t Tree) http.Handler {
		t.Use, t.Group, t.Routes = with(t.Use), with(t.Group), slices.Clone(t.Routes)
		for i := range t.Routes {
			t.Routes[i].Steps = with(t.Routes[i].Steps)
		}
		return build(t)
	}
	return adapter
}

// suiteTest is a subtest. If needs is set, it runs only for adapters for which needs is true.
type suiteTest struct {
	name  string
	test  func(*testing.T, Adapter)
	needs func(Adapter) bool
}

func (c suiteTest) applies(adapter Adapter) bool { return c.needs == nil || c.needs(adapter) }

func hasErrors(adapter Adapter) bool { return adapter.ErrorStatus != 0 }

func hasRefusalErrors(adapter Adapter) bool { return hasErrors(adapter) && adapter.WithRefusal != nil }

// suite are the tests that hold for all guards.
var suite = []suiteTest{
	{name: "GroupAndRoute", test: groupAndRoute},
	{name: "ManyPaths", test: manyPaths},
	{name: "SharedRules", test: sharedRules},
	{name: "Exclusions", test: exclusions},
	{name: "ExcludedMethods", test: excludedMethods},
	{name: "Prefixes", test: prefixes},
	{name: "Labels", test: labels},
	{name: "CountedTwice", test: countedTwice},
	{name: "CountedOnce", test: countedOnce},
	{name: "Shadow", test: shadow},
	{name: "SkipKeys", test: skipKeys},
	{name: "Refusals", test: refusals},
	{name: "EndedRequest", test: endedRequest},
	{name: "FailOpen", test: failOpen},
	{name: "CustomRefusals", test: customRefusals},
	{name: "TimeoutHandlers", test: timeoutHandlers},
	{name: "WrongArguments", test: wrongArguments},
	{name: "Streaming", test: streaming},
	{name: "WebSocket", test: webSocket},
	{name: "ResponseController", test: responseController},
	{name: "CORS", test: cors},
	{name: "HTTP10", test: http10},
	{name: "KeepAlive", test: keepAlive},
	{name: "SlowBodies", test: slowBodies},
	{name: "KeepAliveAfterRefusedBody", test: keepAliveAfterRefusedBody},
	{name: "RefusedBodyH2C", test: refusedBodyH2C},
	{name: "H2C", test: h2c},
	{name: "ReverseProxy", test: reverseProxy},
}

// ofPlain are the tests that run once: where the guard must not follow the handler, or the test
// itself has guards that do.
var ofPlain = []suiteTest{
	{name: "Allocations", test: allocations},
	{name: "All", test: all},
	{name: "RefusalErrors", test: refusalErrors, needs: hasRefusalErrors},
}

// ofFollowing are the tests of options that follow the handler.
var ofFollowing = []suiteTest{
	{name: "CountWhen", test: countWhen},
	{name: "CountWhenElsewhere", test: countWhenElsewhere},
	{name: "CountWhenRefused", test: countWhenRefused},
	{name: "ClientLeft", test: clientLeft},
	{name: "Unreturned", test: unreturned},
	{name: "Login", test: login},
	{name: "CostAfter", test: costAfter},
	{name: "DecisionInContext", test: decisionInContext},
	{name: "SettledByHandler", test: settledByHandler},
	{name: "HandlerErrors", test: handlerErrors, needs: hasErrors},
}

package adaptertest

import "testing"

// Run runs the suite as subtests of t, one after the other; the package comment says what
// each proves.
func Run(t *testing.T, adapter Adapter) {
	for _, c := range suite {
		if c.needs == nil || c.needs(adapter) {
			t.Run(c.name, func(t *testing.T) { c.test(t, adapter) })
		}
	}
}

// suite holds the subtests. A subtest with needs runs only for adapters for which needs is true.
var suite = []struct {
	name  string
	test  func(*testing.T, Adapter)
	needs func(Adapter) bool
}{
	{name: "GroupAndRoute", test: groupAndRoute},
	{name: "Labels", test: labels},
	{name: "WrongArguments", test: wrongArguments},
	{name: "Allocations", test: allocations},
	{name: "ResponseController", test: responseController},

	{name: "Refusals", test: refusals},
	{name: "CustomRefusals", test: customRefusals},
	{name: "RefusalErrors", test: refusalErrors,
		needs: func(a Adapter) bool { return hasErrors(a) && a.WithRefusal != nil }},

	{name: "CountWhen", test: countWhen},
	{name: "CountWhenElsewhere", test: countWhenElsewhere},
	{name: "ClientLeft", test: clientLeft},
	{name: "CostAfter", test: costAfter},
	{name: "DecisionInContext", test: decisionInContext},
	{name: "RequestOutside", test: requestOutside},
	{name: "HandlerErrors", test: handlerErrors, needs: hasErrors},
}

func hasErrors(adapter Adapter) bool { return adapter.ErrorStatus != 0 }

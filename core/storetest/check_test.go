package storetest

import (
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
)

// TestCheckLogs: a check that cannot fail would prove nothing.
func TestCheckLogs(t *testing.T) {
	limits := []core.Limit{core.Per(2, 10*time.Microsecond), core.Per(3, 100*time.Microsecond)}
	outcome := func(at int64, allowed bool, cost int64) Outcome {
		return Outcome{time.UnixMicro(at), allowed, cost}
	}
	for name, test := range map[string]struct {
		outcomes []Outcome
		ok       bool
	}{
		"within":                       {[]Outcome{outcome(0, true, 1), outcome(10, true, 2), outcome(12, false, 1)}, true},
		"in any order":                 {[]Outcome{outcome(12, false, 1), outcome(10, true, 2), outcome(0, true, 1)}, true},
		"above the short":              {[]Outcome{outcome(0, true, 1), outcome(9, true, 2)}, false},
		"above the long":               {[]Outcome{outcome(0, true, 2), outcome(50, true, 2)}, false},
		"exactly a window apart":       {[]Outcome{outcome(0, true, 2), outcome(100, true, 2)}, true},
		"refused with room":            {[]Outcome{outcome(0, true, 1), outcome(5, false, 1)}, false},
		"refused for its cost":         {[]Outcome{outcome(0, true, 1), outcome(5, false, 2)}, true},
		"refused at the window's edge": {[]Outcome{outcome(0, true, 2), outcome(10, false, 1)}, false},
		"refused by the long":          {[]Outcome{outcome(0, true, 2), outcome(20, true, 1), outcome(60, false, 1)}, true},
	} {
		if err := CheckLogs(test.outcomes, limits...); (err == nil) != test.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

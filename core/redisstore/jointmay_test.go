package redisstore

import (
	"testing"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore/internal/server"
)

// TestJointMay: one script has the keys of several clients only once that is known to be right. Before, it may have the
// requests of one client, if their first key is the same.
func TestJointMay(t *testing.T) {
	counts := func(name, rule string, limits ...core.Limit) *ledger {
		return new(Store{client: new(server.Client), prefix: "sash", scripts: map[string]kept{}}).newLedger(
			core.Binding{Name: name, Rule: rule, Limits: limits})
	}
	minute, hour := core.PerMinute(10), core.PerHour(10)
	own := counts("api", "", minute, hour)
	for what, test := range map[string]struct {
		other  *ledger
		key    string
		before bool
	}{
		"the same":              {own, "k", true},
		"another limiter of it": {counts("api", "", minute, hour), "k", true},
		"a plan":                {own.with([]core.Limit{core.PerMinute(20), hour}, 0), "k", true},
		"another client":        {own, "l", false},
		"another name":          {counts("web", "", minute, hour), "k", false},
		"another rule":          {counts("api", "login", minute, hour), "k", false},
		"another first limit":   {counts("api", "", hour, minute), "k", false},
	} {
		batch := []*call{
			{Request: request{Ask: core.Ask{Key: "k"}, ledger: own}},
			{Request: request{Ask: core.Ask{Key: test.key}, ledger: test.other}},
		}
		for mode, want := range map[int32]bool{unproved: test.before, joined: true, split: false, forbidden: false} {
			var j joint
			j.mode.Store(mode)
			if j.may(batch) != want || !j.may(batch[:1]) {
				t.Errorf("%s in mode %d: want %v together, and always alone", what, mode, want)
			}
		}
	}
}

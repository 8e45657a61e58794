package regions

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
)

// TestConfig: what is wrong with a Config is an error that says what to give.
func TestConfig(t *testing.T) {
	same := memstore.New()
	regions := func(n int, name string) map[string]core.Store {
		stores := map[string]core.Store{name: same}
		for len(stores) < n {
			stores[strconv.Itoa(len(stores))] = memstore.New()
		}
		return stores
	}
	for want, c := range map[string]Config{
		"has 0 regions":                         {},
		"has 65 regions":                        {Local: "1", Stores: regions(maxRegions+1, "x")},
		`the name "xxx`:                         {Local: "1", Stores: regions(2, strings.Repeat("x", 65))},
		`Local is "asia": give one`:             {Local: "asia", Stores: three(), Strict: true},
		"Strict and PollInterval or MaxClients": {Local: "eu", Stores: three(), Strict: true, MaxClients: 1},
		"has Strict and PollInterval":           {Local: "eu", Stores: three(), Strict: true, PollInterval: 1e9},
		"PollInterval is 19.999999ms: give":     {Local: "eu", Stores: three(), PollInterval: minPollInterval - 1},
		"PollInterval is 10.000000001s":         {Local: "eu", Stores: three(), PollInterval: maxPollInterval + 1},
		"MaxClients is -1: give":                {Local: "eu", Stores: three(), MaxClients: -1},
		`the name ""`:                           {Stores: map[string]core.Store{"": same}},
		`"eu" is nil: give one`:                 {Local: "eu", Stores: map[string]core.Store{"eu": nil}},
		`"eu" and "us" have the same`:           {Local: "eu", Stores: map[string]core.Store{"eu": same, "us": same}},
	} {
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want it to say %q", err, want)
		}
	}
	for _, unmade := range []*Store{nil, {}} {
		_, err := unmade.Bind(core.Binding{})
		if failed := unmade.Check(t.Context()); err != errZeroStore || failed != err || unmade.Stats().Regions != nil {
			t.Errorf("%v, %v, want %v and no regions", err, failed, errZeroStore)
		}
	}
	for _, every := range []time.Duration{minPollInterval, maxPollInterval} {
		core.Must(New(Config{Local: "1", Stores: regions(maxRegions, strings.Repeat("x", 64)), PollInterval: every}))
	}
	mars := Config{Local: "eu", Strict: true, Home: func(string) string { return "mars" }}
	l := newFixture().limiter(mars, core.PerDay(1))
	if d := l.Allow(t.Context(), "k"); d.Err == nil || !strings.Contains(d.Err.Error(), `no region "mars"`) {
		t.Errorf("%+v", d)
	}
	alone, err := core.Must(New(Config{Local: "eu", Stores: map[string]core.Store{"eu": same}, Strict: true})).Bind(
		core.Binding{Limits: []core.Limit{core.PerDay(1).Named("1d")}})
	if _, immediate := alone.(core.Immediate); err != nil || !immediate {
		t.Errorf("one region is not its own store: %T, %v", alone, err)
	}
}

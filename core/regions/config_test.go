package regions

import (
	"maps"
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
	for want, c := range map[string]Config{
		"has 0 regions":                      {},
		`Here is "asia": give one`:           {Here: "asia", Stores: three(), Strict: true},
		"Strict and LookEvery or MaxClients": {Here: "eu", Stores: three(), Strict: true, MaxClients: 1},
		"has Strict and LookEvery":           {Here: "eu", Stores: three(), Strict: true, LookEvery: time.Second},
		"LookEvery is 19.999999ms: give":     {Here: "eu", Stores: three(), LookEvery: minLookEvery - 1},
		"LookEvery is 10.000000001s":         {Here: "eu", Stores: three(), LookEvery: maxLookEvery + 1},
		"MaxClients is -1: give":             {Here: "eu", Stores: three(), MaxClients: -1},
		`the name ""`:                        {Stores: map[string]core.Store{"": same}},
		`"eu" is nil: give one`:              {Here: "eu", Stores: map[string]core.Store{"eu": nil}},
		`"eu" and "us" have the same`:        {Here: "eu", Stores: map[string]core.Store{"eu": same, "us": same}},
	} {
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want it to say %q", err, want)
		}
	}
	for _, unmade := range []*Store{nil, {}} {
		if _, err := unmade.Bind(core.Binding{}); err != errUnmade {
			t.Errorf("%v, want %v", err, errUnmade)
		}
	}
	many := map[string]core.Store{strings.Repeat("x", 64): same}
	for len(many) < maxRegions {
		many[strconv.Itoa(len(many))] = memstore.New()
	}
	for _, every := range []time.Duration{minLookEvery, maxLookEvery} {
		newStore(t, Config{Here: "1", Stores: many, LookEvery: every})
	}
	for _, name := range []string{"another", strings.Repeat("x", 65)} {
		stores := map[string]core.Store{name: memstore.New()}
		if len(name) < 64 {
			maps.Copy(stores, many)
		}
		if _, err := New(Config{Here: name, Stores: stores}); err == nil {
			t.Errorf("%d regions, one of the name %q, are no error", len(stores), name)
		}
	}
	mars := Config{Here: "eu", Strict: true, Home: func(string) string { return "mars" }}
	l := newScene().limiter(t, mars, core.PerDay(1))
	if d := l.Allow(t.Context(), "k"); d.Err == nil || !strings.Contains(d.Err.Error(), `no region "mars"`) {
		t.Errorf("%+v", d)
	}
	alone, err := newStore(t, Config{Here: "eu", Stores: map[string]core.Store{"eu": same}, Strict: true}).Bind(
		core.Binding{Limits: []core.Limit{core.PerDay(1).Named("1d")}})
	if _, immediate := alone.(core.Immediate); err != nil || !immediate {
		t.Errorf("one region is not its own store: %T, %v", alone, err)
	}
}

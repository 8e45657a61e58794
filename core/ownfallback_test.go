package core_test

import (
	"strings"
	"testing"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
)

// structStore is a store that is no pointer. It cannot be compared if other cannot be.
type structStore struct {
	core.Store
	other any
}

// funcStore is a store that can never be compared.
type funcStore func(core.Binding) (core.Ledger, error)

func (f funcStore) Bind(r core.Binding) (core.Ledger, error) { return f(r) }

// TestOwnFallback: New takes no store as its own fallback. A store that cannot be
// compared passes, and does not panic.
func TestOwnFallback(t *testing.T) {
	shared := memstore.New()
	bind := funcStore(shared.Bind)
	for _, c := range []struct {
		name        string
		store, same core.Store
		refused     bool
	}{
		{"one pointer", shared, shared, true},
		{"two pointers", shared, memstore.New(), false},
		{"two types", shared, structStore{Store: shared}, false},
		{"equal structs", structStore{shared, "a"}, structStore{shared, "a"}, true},
		{"structs of two stores", structStore{shared, "a"}, structStore{memstore.New(), "a"}, false},
		{"a function", bind, bind, false},
		{"a struct with a function", structStore{bind, 1}, structStore{bind, 1}, false},
		{"a struct with a slice", structStore{shared, []int{1}}, structStore{shared, []int{1}}, false},
		{"a slice in the first alone", structStore{shared, []int{1}}, structStore{shared, 1}, false},
		{"a slice in the second alone", structStore{shared, 1}, structStore{shared, []int{1}}, false},
		{"a slice deep down", structStore{shared, structStore{other: []int{1}}},
			structStore{shared, structStore{other: []int{1}}}, false},
	} {
		l, err := core.New(core.Config{
			Name: "api", Store: c.store, Limits: []core.Limit{core.PerMinute(3)}, OnStoreError: core.Fallback(c.same, 1)})
		if c.refused != (err != nil) || c.refused != (l == nil) {
			t.Errorf("%s: %v and the error %v, want an error: %v", c.name, l, err, c.refused)
		}
		if err != nil && !strings.Contains(err.Error(), `limiter "api"`) {
			t.Errorf("%s: the error %q does not name the limiter", c.name, err)
		}
	}
}

// TestOwnFallbackLater: what is made of a limiter takes no store as its own fallback
// either, and a rule of a limiter with another fallback is as before.
func TestOwnFallbackLater(t *testing.T) {
	store := memstore.New()
	l := limiter(t, core.Config{Name: "api", Store: store, OnStoreError: core.Fallback(memstore.New(), 1)})
	rule, err := l.Rule("login", core.PerMinute(1))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		err, ok := recover().(error)
		if !ok || !strings.Contains(err.Error(), "Config.Store itself") || !strings.Contains(err.Error(), `"login"`) {
			t.Errorf("WithPolicy panics with %v, want the error of New", err)
		}
	}()
	rule.WithPolicy(core.Fallback(store, 1))
}

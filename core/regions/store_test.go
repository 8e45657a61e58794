package regions

import (
	"testing"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/core/storetest"
)

// three returns the stores of three regions.
func three() map[string]core.Store {
	return map[string]core.Store{"ap": memstore.New(), "eu": memstore.New(), "us": memstore.New()}
}

func newStore(t testing.TB, c Config) *Store {
	t.Helper()
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestConformance: for a client whose home is a region, the regions are a store to the letter.
func TestConformance(t *testing.T) {
	for name, c := range map[string]Config{
		"strict at home":        {Here: "eu", Stores: three(), Strict: true, Home: func(string) string { return "eu" }},
		"strict away from home": {Here: "eu", Stores: three(), Strict: true, Home: func(string) string { return "us" }},
	} {
		t.Run(name, func(t *testing.T) {
			storetest.Run(t, func(t *testing.T) core.Store { return newStore(t, c) })
		})
	}
}

package regions

import (
	"slices"
	"strings"
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

// TestConformance: the regions are a store to the letter where the client's home has all of its limits. Without one,
// while the others are idle, eventual regions are too but for three subtests: of several limits, a share may bind that
// is of another limit than the one with the least left, and on a busy machine a look comes too late for many at once.
func TestConformance(t *testing.T) {
	at := func(home string) func(string) string { return func(string) string { return home } }
	shares := []string{"Concurrency", "Histories", "Usage"}
	for name, c := range map[string]Config{
		"strict":                {Here: "eu", Stores: three(), Strict: true, Home: at("eu")},
		"strict away from home": {Here: "eu", Stores: three(), Strict: true, Home: at("us")},
		"eventual":              {Here: "eu", Stores: three()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Run(t, func(t *testing.T) core.Store {
				own := c
				if _, subtest, _ := strings.Cut(t.Name(), "/eventual/"); slices.Contains(shares, subtest) {
					own.Home = at("eu")
				}
				return newStore(t, own)
			})
		})
	}
}

package memstore_test

import (
	"testing"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/core/storetest"
)

func TestConformance(t *testing.T) {
	storetest.Run(t, func(*testing.T) core.Store { return memstore.New() })
}

// TestConformanceSmall runs the suite in the least memory, where shards and
// chunks come and go.
func TestConformanceSmall(t *testing.T) {
	storetest.Run(t, func(*testing.T) core.Store { return memstore.New(memstore.WithMaxBytes(memstore.MinMaxBytes)) })
}

package storetest_test

import (
	"testing"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/storetest"
)

// TestExample runs the suite on the store of the example.
func TestExample(t *testing.T) {
	storetest.Run(t, func(t *testing.T) core.Store { return newNaive() })
}

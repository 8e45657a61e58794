package adaptertest_test

import (
	"testing"

	"github.com/sashlimit/sash/nethttp/adaptertest"
)

// TestExample runs what the example shows.
func TestExample(t *testing.T) { adaptertest.Run(t, plain) }

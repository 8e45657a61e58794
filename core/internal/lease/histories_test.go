//go:build !race && !short

package lease

import "testing"

// TestModelFurther goes through the histories for which TestModel has no time under the race detector.
func TestModelFurther(t *testing.T) { testModel(t, 1, 2, 3) }

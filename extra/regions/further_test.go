//go:build !race && !short

package regions

import "testing"

// TestEventualHistoriesFurther goes through the histories for which TestEventualHistories has no time under the race
// detector.
func TestEventualHistoriesFurther(t *testing.T) { testHistories(t, false, true, "above a limit") }

// TestStrictHistoriesFurther does so for TestStrictHistories.
func TestStrictHistoriesFurther(t *testing.T) {
	testHistories(t, true, true, "admitted elsewhere", "leased")
}

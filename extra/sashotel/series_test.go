package sashotel_test

import (
	"fmt"
	"maps"
	"testing"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/extra/sashotel"
)

// TestOverflow: where the SDK tells fewer sets of attributes apart than there are, the
// earlier ones keep their own in each reading, no count decreases, and none is lost.
func TestOverflow(t *testing.T) {
	w := watch(t, sashotel.ByRoute())
	total := 0.0
	observe := func(from, to int) {
		for i := from; i < to; i++ {
			for _, allowed := range []bool{true, false} {
				e := decided(core.SourceCounted, allowed, nil)
				e.Label = fmt.Sprint("/", i)
				w.Observe(t.Context(), e)
				total++
			}
		}
	}
	var before map[string]float64
	for _, part := range [][2]int{{0, 900}, {0, 1000}, {500, 1000}} {
		observe(part[0], part[1])
		after := w.points(t, "sash.decisions")
		sum := 0.0
		for attributes, n := range after {
			sum += n
			if n < before[attributes] {
				t.Errorf("%s: %v after %v", attributes, n, before[attributes])
			}
		}
		for attributes := range before {
			if _, ok := after[attributes]; !ok {
				t.Errorf("%s is gone", attributes)
			}
		}
		if sum != total {
			t.Errorf("counted %v, want %v", sum, total)
		}
		before = maps.Clone(after)
	}
	if before["otel.metric.overflow=true"] == 0 {
		t.Error("the SDK has added up nothing: this test needs more series")
	}
}

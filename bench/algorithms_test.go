package bench

import (
	"strings"
	"testing"

	"github.com/sashlimit/sash/core"
)

// TestAlgorithms: a client that asks for all of its limit is admitted 60 of 61 by a coarse log and all by a log, and a
// coarse log takes as much however large it is.
func TestAlgorithms(t *testing.T) {
	for _, n := range sizes {
		for _, r := range runHours(short, n) {
			share := map[string]string{"log": "100.00", "coarse": "98.3"}[r.Name]
			if r.Note != "" && !strings.HasPrefix(r.Note, share) {
				t.Errorf("%s, %s: %s", r.What, r.Name, r.Note)
			}
			if bytes := r.Values[0]; r.Unit == "B" && (bytes > 600) != (r.Name == "log") {
				t.Errorf("%s, %s: %v bytes", r.What, r.Name, bytes)
			}
		}
	}
	bytes, err := openLab(t).bytesPerClient(100_000, core.CoarseLog)
	if err != nil || bytes < 250 || bytes > 450 {
		t.Errorf("a coarse log takes %v bytes in Redis, %v", bytes, err)
	}
	rows := coarseness([]Row{
		{Name: "log, limit 1000", Ratios: []float64{2}}, {Name: "coarse, limit 1000", Ratios: []float64{3}},
	})
	if _, met := rows[0].Met(); met || rows[0].Values[0] != 1.5 {
		t.Errorf("%+v", rows)
	}
}

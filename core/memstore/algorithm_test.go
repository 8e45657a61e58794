package memstore_test

import (
	"strings"
	"testing"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
)

// TestUnknownAlgorithm: a rule that no Limiter has checked is an error, and is not
// counted by another algorithm.
func TestUnknownAlgorithm(t *testing.T) {
	unknown := core.Algorithm(len(core.Algorithms()))
	limits := []core.Limit{core.PerMinute(1).Named("minute").Using(unknown)}
	counts, err := memstore.New().Bind(core.Binding{Limits: limits})
	if counts != nil || err == nil || !strings.Contains(err.Error(), `algorithm of limit 1/1m `) {
		t.Errorf("Bind returned %v and %v, want an error that names the limit", counts, err)
	}
}

package redistest

import (
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// TestAhead: a server that is started ahead is, StartAhead says, and leaves nothing behind.
func TestAhead(t *testing.T) {
	t.Parallel()
	var pids []int
	t.Run("servers", func(t *testing.T) {
		for _, ahead := range []time.Duration{time.Hour, -time.Hour} {
			pids = append(pids, StartAhead(t, ahead).proc.Process.Pid)
		}
	})
	for _, pid := range pids {
		if left, err := filepath.Glob("/dev/shm/*faketime*" + strconv.Itoa(pid)); err != nil || len(left) > 0 {
			t.Errorf("%v is left: %v", left, err)
		}
	}
}

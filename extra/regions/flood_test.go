//go:build !race && !short

package regions

import (
	"runtime"
	"testing"
)

// inUse returns the memory that is in use, in bytes.
func inUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestFlood: a flood of busy clients takes no more memory than those that have a place: at most 360 bytes each while
// they all wait for a look, which is when they take most.
func TestFlood(t *testing.T) {
	const places = 1 << 14
	e := newEventual(t, 0)
	table := e.store.table
	table.most, table.sending = places, true // no look is sent: the memory of looks under way follows the machine's load
	before := inUse()
	e.wishes(4 * places)
	if took := inUse() - before; len(table.clients) != places || took > 360*places {
		t.Errorf("%d clients take %d bytes", len(table.clients), took)
	}
	runtime.KeepAlive(e)
}

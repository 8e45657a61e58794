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
// they all wait for a poll, when they use the most memory.
func TestFlood(t *testing.T) {
	const places = 1 << 14
	e := newEventual(0)
	table := e.store.table
	// No poll is sent: the memory of polls in flight depends on the machine's load.
	table.most, table.sending = places, true
	before := inUse()
	e.pollAll(4 * places)
	if elapsed := inUse() - before; len(table.clients) != places || elapsed > 360*places {
		t.Errorf("%d clients take %d bytes", len(table.clients), elapsed)
	}
	runtime.KeepAlive(e)
}

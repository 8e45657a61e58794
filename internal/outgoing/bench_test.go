package outgoing

import (
	"strconv"
	"testing"
	"time"
)

// BenchmarkPauses begins pauses of new keys while as many are held as may be.
func BenchmarkPauses(b *testing.B) {
	keys := make([]string, 4*maxPauses)
	for i := range keys {
		keys[i] = strconv.Itoa(i)
	}
	var p pauses
	i := 0
	for b.Loop() {
		p.note(keys[i%len(keys)], time.Minute+time.Duration(i%7919)*time.Millisecond)
		i++
	}
}

package core

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestLaterNoteStays: a note that comes late does not replace a later time.
func TestLaterNoteStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lastCount{start: time.Now()}
		later := c.now() + int64(time.Second)
		c.at.Store(later)
		c.note()
		if at := c.at.Load(); at != later {
			t.Errorf("the last count is at %d, want %d", at, later)
		}
	})
}

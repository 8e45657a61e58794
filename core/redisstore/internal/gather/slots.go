package gather

import "time"

const (
	// minSlots is how many batches may be under way at a time. By measurement on two processors, with fewer 4 callers
	// wait for each other, and 64 leave the server without work at times; with more the batches of 64 callers are
	// smaller for nothing. See TestWaitingCallsGoTogether.
	minSlots = 4

	// fewestSlots is how many batches may be under way while replies are not prompt: a server that works on one batch
	// after another answers each of them all the later. See "slowest" in TestOverload.
	fewestSlots = 3

	// maxSlots is how many batches may be under way while a crowd waits for a server that is far away: see "a longer
	// way" in TestOverload.
	maxSlots = 16

	// A crowd is more waiting calls than this. It is as many as get by with minSlots: see TestFewSlotsForFewCallers.
	crowd = 2 * MaxBatch

	// A reply that takes less time than this speaks for another slot. One that takes longer speaks against it: the
	// server may have too much to do, and would answer more batches at a time all the later. See "far too many" in
	// TestOverload.
	promptReply = 50 * time.Millisecond
)

// slots counts the batches that may be under way. The queue's lock guards it.
type slots struct {
	total int // fewestSlots to maxSlots
	used  int // by batches under way that are not lost

	// coming is how many slots are kept for workers that were woken or started, and have not taken calls yet.
	coming int
}

// free reports whether another batch may be under way.
func (s *slots) free() bool { return s.used+s.coming < s.total }

// adapt changes the number of slots when a batch has ended. Each batch that comes back promptly while a crowd waits, or
// while there are fewer than minSlots, adds one. Each that takes long, or leaves nothing waiting, removes one: see
// TestSlotsGoWithTheCrowd and TestSlotsComeBack.
func (s *slots) adapt(took time.Duration, waiting int) {
	switch {
	case took >= promptReply:
		s.total = max(fewestSlots, s.total-1)
	case s.total < minSlots:
		s.total++
	case waiting == 0:
		s.total = max(minSlots, s.total-1)
	case waiting > crowd:
		s.total = min(maxSlots, s.total+1)
	}
}

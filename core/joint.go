package core

import "context"

// Joint is implemented by Counts that can decide requests by several rules in one step, as
// redisstore does on a single server; see [Together].
type Joint interface {
	// TakeJointly decides each of asks by the Counts of the same index, of which the
	// receiver is one. It does so as Take does, but counts all requests or none. The
	// decisions are what Take would have returned for each alone, except that nothing is
	// counted where one refuses.
	//
	// It returns nil and no error if it cannot do that in one step, as for Counts of
	// another store. Then nothing was asked.
	TakeJointly(ctx context.Context, counts []Counts, asks []Ask) ([]Decision, error)
}

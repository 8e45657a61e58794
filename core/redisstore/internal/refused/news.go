package refused

import (
	"hash/maphash"
	"sync/atomic"
	"time"

	"github.com/sashlimit/sash/core"
)

// news is what this process has been told of the state of a client, or of the few clients that share it. It decides
// how long a refusal with something remaining is remembered: an answer that was given before must not be
// contradicted. See TestNotContradicted and TestLinearizable. Admissions are news while the shard is watched. So a
// refusal that an admission ends is remembered when it comes for the second time, unless the shard was watched before.
type news struct {
	// at is when an answer came that may know of more admissions than a refusal which was asked for at that time or
	// before.
	at atomic.Int64

	// told is a hash of the numbers of the newest refusal, see Refusals.told, and toldAt is when a refusal with these
	// numbers came last. The shard's lock guards both.
	told   uint64
	toldAt time.Duration

	// changed is when units were last given back, or charged, or the client was reset: an answer to an earlier question
	// is not believed. The shard's lock guards it.
	changed time.Duration
}

// heard moves n.at forward to at.
func (n *news) heard(at time.Duration) {
	for {
		old := n.at.Load()
		if old >= int64(at) || n.at.CompareAndSwap(old, int64(at)) {
			return
		}
	}
}

// current reports whether no later state than that of a question sent at asked has been told.
func (n *news) current(asked time.Duration) bool { return n.at.Load() < int64(asked) }

// refused notes the numbers of a refusal that was asked for at asked and came at now. Other numbers than before show
// an admission of which the refusals that are remembered do not know. If the numbers before came while this refusal
// was under way, either may be the later one, and neither is kept (TestAskedBefore). The shard's lock must be held.
func (n *news) refused(told uint64, asked, now time.Duration) {
	switch {
	case told == n.told:
	case n.toldAt < asked:
		n.heard(asked - 1)
	default:
		n.heard(now)
	}
	n.told, n.toldAt = told, now
}

// told returns a hash of the numbers of a refusal. Rules with other Requests may be on the same count.
func (r *Refusals) told(answer *core.Decision) uint64 {
	limit := &answer.Limit
	return maphash.String(r.seed[0], limit.Name) ^ uint64(limit.Requests)<<24 ^ uint64(answer.Remaining)
}

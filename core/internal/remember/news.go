package remember

import "time"

// news is what this process has been told of the state of a client, or of the few clients that share it. It decides
// how long a refusal with something remaining is remembered: an answer that was given before must not be
// contradicted. See TestNotContradicted and TestLinearizable. Admissions are news while the shard is watched. So a
// refusal that an admission ends is remembered when it comes for the second time, unless the shard was watched before.
// The shard's lock guards all fields.
type news struct {
	// at is when an answer came that may know of more admissions than a refusal which was asked for at that time or
	// before.
	at time.Duration

	// told is a hash of the numbers of the newest refusal, see Note, and toldAt is when a refusal with these
	// numbers came last.
	told   uint64
	toldAt time.Duration

	// changed is when units were last given back, or charged, or the client was reset: an answer to an earlier question
	// is not believed.
	changed time.Duration
}

// refused notes the numbers of a refusal that was asked for at asked and came at now. Other numbers than before show
// an admission of which the refusals that are remembered do not know. If the numbers before came while this refusal
// was under way, either may be the later one, and neither is kept (TestAskedBefore).
func (n *news) refused(told uint64, asked, now time.Duration) {
	switch {
	case told == n.told:
	case n.toldAt < asked:
		n.at = max(n.at, asked-1)
	default:
		n.at = max(n.at, now)
	}
	n.told, n.toldAt = told, now
}

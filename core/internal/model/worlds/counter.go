package worlds

import "github.com/sashlimit/sash/core"

func init() { definitions[core.SlidingCounter] = counter{} }

// counter counts the units of this fixed window, and the units of the window before, by the part of this window that is
// left.
type counter struct{}

func (counter) together(l Limit, a, b int64) bool { return a/l.W == b/l.W }

func (counter) begun(l Limit, newest int64) int64 { return newest / l.W * l.W }

func (counter) used(l Limit, past []Unit, _, stamp int64) (used int64) {
	before := int64(0)
	for _, u := range past {
		switch u.At / l.W {
		case stamp / l.W:
			used += u.N
		case stamp/l.W - 1:
			before += u.N
		}
	}
	return used + before*(l.W-stamp%l.W)/l.W
}

func (counter) counts(l Limit, at, now, begun int64) bool { return (at/l.W+2)*l.W > max(now, begun) }

func (counter) resetAfter(l Limit, _ []Unit, now, stamp, _ int64) int64 {
	return (stamp/l.W+1)*l.W - now
}

// returned keeps units of 0: the counter still begins where it began.
func (counter) returned(past []Unit) []Unit { return past }

func (counter) most(l Limit) int64 { return 2 * l.N }

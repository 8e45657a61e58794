package regions

import (
	"slices"

	"github.com/sashlimit/sash/core"
)

// share returns the part of n that number i of the regions has. The parts of all sum to n, and
// the last region has the largest.
func share(n int64, i, regions int) int64 {
	r := int64(regions)
	return n*int64(i+1)/r - n*int64(i)/r
}

// shareOf returns the limits with region i's share of each, and false if it has none of one of
// them: then it can admit nothing.
func shareOf(limits []core.Limit, i, regions int) ([]core.Limit, bool) {
	limits = slices.Clone(limits)
	for l := range limits {
		if limits[l].Requests = share(limits[l].Requests, i, regions); limits[l].Requests == 0 {
			return limits, false
		}
	}
	return limits, true
}

// fits reports whether each of the limits can admit a cost.
func fits(cost int64, limits []core.Limit) bool {
	return !slices.ContainsFunc(limits, func(l core.Limit) bool { return cost > l.Requests })
}

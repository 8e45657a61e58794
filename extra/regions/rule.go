package regions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/internal/notice"
)

// rule is a rule in all regions. It is the common part of both modes.
type rule struct {
	store   *Store
	binding core.Binding
	remotes []ledgers // by region
	order   []int     // indexes of the regions, the local one first and then by name
}

// ledgers are the two ledgers of a rule in one region, on the same counts.
type ledgers struct {
	whole  core.Ledger
	share  core.Ledger  // nil if the region has no share of a limit
	shares []core.Limit // the limits of share
}

func (s *Store) newRule(binding core.Binding) (*rule, error) {
	r := &rule{store: s, binding: binding}
	for i, region := range s.regions {
		all, err := newRemotes(region.store, binding, i, len(s.regions))
		if err != nil {
			return nil, region.withName(err)
		}
		r.remotes = append(r.remotes, all)
		r.order = append(r.order, (s.local+i)%len(s.regions))
	}
	return r, nil
}

// newRemotes binds the store of region i to the limits of the binding, and to the region's share of them.
func newRemotes(store core.Store, binding core.Binding, i, regions int) (l ledgers, err error) {
	if l.whole, err = store.Bind(binding); err != nil {
		return l, err
	}
	var ok bool
	if l.shares, ok = shareOf(binding.Limits, i, regions); ok {
		binding.Limits = l.shares
		l.share, err = store.Bind(binding)
	}
	return l, err
}

// home returns the index of the region that enforces a client's whole limits, or -1.
func (r *rule) home(client string) (int, error) {
	if r.store.config.Home == nil {
		return -1, nil
	}
	return r.store.index(r.store.config.Home(client))
}

// index returns the index of a region, or -1 for "".
func (s *Store) index(name string) (int, error) {
	i := slices.IndexFunc(s.regions, func(r *region) bool { return r.name == name })
	if i < 0 && name != "" {
		return 0, fmt.Errorf("sash: there is no region %q", name)
	}
	return i, nil
}

// limitIndex returns the index in limits of d.Limit, or of the limit that it is a share of.
func limitIndex(d *core.Decision, limits []core.Limit) int {
	return max(0, slices.IndexFunc(limits, func(l core.Limit) bool { return l.Name == d.Limit.Name }))
}

// limitsOf returns the request's own limits, or else the rule's.
func (r *rule) limitsOf(ask *core.Ask) []core.Limit {
	if ask.Override != nil && ask.Override.Limits != nil {
		return ask.Override.Limits
	}
	return r.binding.Limits
}

// notice sends a notice to the limiter's observer, if there is one.
func (r *rule) notice(code, text string) {
	if r.binding.Notice != nil {
		r.binding.Notice(code, text)
	}
}

// recordAnswer records an answer or a failure of a region, and sends a notice if the region is silent.
func (r *rule) recordAnswer(region *region, err error, sent, received time.Duration) {
	region.recordAnswer(err, sent, received)
	if region.silent(received) {
		r.notice(notice.RegionSilent, fmt.Sprintf("region %q has not answered for %v: until it does, each client "+
			"has its limit less that region's share", region.name, silentAfter))
	}
}

// forEachRegion calls do for all regions concurrently, and joins the errors.
func (s *Store) forEachRegion(do func(i int) error) error {
	failed := make([]error, len(s.regions))
	var group sync.WaitGroup
	for i, region := range s.regions {
		group.Go(func() {
			if err := do(i); err != nil {
				failed[i] = region.withName(err)
			}
		})
	}
	group.Wait()
	return errors.Join(failed...)
}

// Usage implements [core.Ledger]. It asks the client's home region, or else all regions, and fails if one of them
// fails. At is the time of the local region.
func (r *rule) Usage(ctx context.Context, key string) ([]core.Usage, error) {
	if home, err := r.home(key); err != nil || home >= 0 {
		if err != nil {
			return nil, err
		}
		return r.remotes[home].whole.Usage(ctx, key)
	}
	all := make([][]core.Usage, len(r.remotes))
	err := r.store.forEachRegion(func(i int) (err error) {
		all[i], err = r.remotes[i].whole.Usage(ctx, key)
		return err
	})
	if err != nil {
		return nil, err
	}
	sum := all[r.store.local]
	for _, i := range r.order[1:] {
		for l, use := range all[i] {
			sum[l].Used += use.Used
			one, other := sum[l].ResetAfter, use.ResetAfter
			sum[l].ResetAfter = min(cmp.Or(one, other), cmp.Or(other, one))
			if r.binding.Limits[l].Algorithm.IsLinear() { // until all are full
				sum[l].ResetAfter = max(one, other)
			}
		}
	}
	return sum, nil
}

// Return implements [core.Ledger]. The units go back to the region that counted them.
func (r *rule) Return(ctx context.Context, back core.Refund) (int64, error) {
	i, err := r.store.index(cmp.Or(back.Region, r.store.config.Local))
	if err != nil {
		return 0, err
	}
	home, err := r.home(back.Key)
	if err != nil {
		return 0, err
	}
	if share := r.remotes[i].share; home < 0 && share != nil {
		if shares, ok := shareOf(back.Limits, i, len(r.order)); ok && back.Limits != nil {
			back.Limits = shares
		}
		return share.Return(ctx, back)
	}
	return r.remotes[i].whole.Return(ctx, back)
}

// Reset implements [core.Ledger]. The error names the regions that failed.
func (r *rule) Reset(ctx context.Context, key string) error {
	return r.store.forEachRegion(func(i int) error { return r.remotes[i].whole.Reset(ctx, key) })
}

// share returns region i's share of n. The shares sum to n, and the last region has the largest.
func share(n int64, i, regions int) int64 {
	r := int64(regions)
	return n*int64(i+1)/r - n*int64(i)/r
}

// shareOf returns region i's share of each limit. It reports false if a share is 0, so that the region admits nothing.
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

func isCharge(ask *core.Ask) bool { return ask.Override != nil && ask.Override.Charge }

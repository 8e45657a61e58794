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
	"github.com/sashlimit/sash/internal/errs"
	"github.com/sashlimit/sash/internal/notice"
)

// rule is a rule bound to the stores of all regions. Both modes share it.
type rule struct {
	*Store
	core.Binding
	bound []bound // by region
	order []int   // the regions, this one first, and then by name from the next one on
}

// bound is a rule bound to the store of a region. Both ledgers are on the same counts.
type bound struct {
	whole  core.Ledger
	share  core.Ledger // nil if the region has no share of a limit
	shares []core.Limit
}

func (s *Store) newRule(binding core.Binding) (*rule, error) {
	r := &rule{Store: s, Binding: binding, bound: make([]bound, len(s.regions))}
	for i := range s.regions {
		r.order = append(r.order, (s.here+i)%len(s.regions))
		if err := r.bind(i); err != nil {
			return nil, &errs.Worded{Words: fmt.Sprintf("region %q: ", s.regions[i].name), Err: err}
		}
	}
	return r, nil
}

func (r *rule) bind(i int) (err error) {
	b, binding := &r.bound[i], r.Binding
	if b.whole, err = r.regions[i].store.Bind(binding); err != nil {
		return err
	}
	var some bool
	if b.shares, some = shareOf(r.Limits, i, len(r.regions)); some {
		binding.Limits = b.shares
		b.share, err = r.regions[i].store.Bind(binding)
	}
	return err
}

// home returns the index of the region that has all of a client's limits, or -1.
func (r *rule) home(client string) (int, error) {
	if r.config.Home == nil {
		return -1, nil
	}
	return r.index(r.config.Home(client))
}

// index returns the index of a region, or -1 for "".
func (r *rule) index(name string) (int, error) {
	i := slices.IndexFunc(r.regions, func(r *region) bool { return r.name == name })
	if i < 0 && name != "" {
		return 0, fmt.Errorf("sash: there is no region %q", name)
	}
	return i, nil
}

// binds returns the place in limits of the one that a decision by shares of them tells of.
func binds(d *core.Decision, limits []core.Limit) int {
	return max(0, slices.IndexFunc(limits, func(l core.Limit) bool { return l.Name == d.Limit.Name }))
}

// limitsOf returns the limits that an ask is decided by.
func (r *rule) limitsOf(ask *core.Ask) []core.Limit {
	if ask.Override != nil && ask.Override.Limits != nil {
		return ask.Override.Limits
	}
	return r.Limits
}

// notice tells the observer of the rule's limiter, if there is one.
func (r *rule) notice(code, text string) {
	if r.Notice != nil {
		r.Notice(code, text)
	}
}

// answered notes what became of a question, and tells of a region that has become silent.
func (r *rule) answered(region *region, err error, sent, came time.Duration) {
	region.answered(err, sent, came)
	if region.silent(came) {
		r.notice(notice.RegionSilent, fmt.Sprintf("region %q has not answered for %v: until it does, each client "+
			"has less than its limit, by what that region has of it", region.name, silence))
	}
}

// everywhere calls do for each region at the same time, and joins the errors.
func (r *rule) everywhere(do func(i int) error) error {
	failed := make([]error, len(r.regions))
	var group sync.WaitGroup
	for i := range r.regions {
		group.Go(func() {
			if err := do(i); err != nil {
				failed[i] = &errs.Worded{Words: fmt.Sprintf("region %q: ", r.regions[i].name), Err: err}
			}
		})
	}
	group.Wait()
	return errors.Join(failed...)
}

// Usage implements [core.Ledger]. It asks the client's home, or else all regions, and fails if one
// of them does: what that one has counted is not known. At is the time of this region then.
func (r *rule) Usage(ctx context.Context, key string) ([]core.Usage, error) {
	if home, err := r.home(key); err != nil || home >= 0 {
		if err != nil {
			return nil, err
		}
		return r.bound[home].whole.Usage(ctx, key)
	}
	all := make([][]core.Usage, len(r.regions))
	err := r.everywhere(func(i int) (err error) {
		all[i], err = r.bound[i].whole.Usage(ctx, key)
		return err
	})
	if err != nil {
		return nil, err
	}
	sum := all[r.here]
	for _, i := range r.order[1:] {
		for l, use := range all[i] {
			sum[l].Used += use.Used
			one, other := sum[l].ResetAfter, use.ResetAfter
			sum[l].ResetAfter = min(cmp.Or(one, other), cmp.Or(other, one))
		}
	}
	return sum, nil
}

// Return implements [core.Ledger]. The units go back to the region that has counted them.
func (r *rule) Return(ctx context.Context, back core.Refund) (int64, error) {
	i, err := r.index(cmp.Or(back.Region, r.config.Here))
	if err != nil {
		return 0, err
	}
	home, err := r.home(back.Key)
	if err != nil {
		return 0, err
	}
	if b := &r.bound[i]; home < 0 && b.share != nil {
		return b.share.Return(ctx, back)
	}
	return r.bound[i].whole.Return(ctx, back)
}

// Reset implements [core.Ledger]. All regions are reset, or the error says which are not.
func (r *rule) Reset(ctx context.Context, key string) error {
	return r.everywhere(func(i int) error { return r.bound[i].whole.Reset(ctx, key) })
}

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

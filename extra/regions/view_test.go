package regions

import (
	"slices"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
)

// TestQuotas: each limit has its own usages, and the flags of the view cover all limits.
func TestQuotas(t *testing.T) {
	const now = time.Hour
	r, _, _ := newStubRule(Config{})
	r.binding.Limits = []core.Limit{core.PerDay(90).Named("a"), core.PerDay(60).Named("b")}
	q := &request{rule: r, limits: r.binding.Limits, home: -1, holder: holder{1}}
	c := &client{usages: make([]usage, 4)}
	r.store.table.clients[q.holder] = c
	uses := func(a, b int64) []core.Usage {
		return []core.Usage{{Used: a, ResetAfter: time.Minute}, {Used: b, ResetAfter: time.Minute}}
	}
	r.store.table.update(c, 0, uses(1, 2), uses(10, 0), usage{sent: 1, received: now})
	r.store.table.update(c, 1, uses(1, 2), uses(20, 30), usage{sent: now, received: now})
	v := view{mayAdmit: true}
	v.read(q, now)
	want := []quota{{60, 30, 1}, {30, 20, 2}}
	if !slices.Equal(v.quotas, want) || !v.known || !v.lowered || !v.short || v.stale {
		t.Errorf("%+v, want %+v", v, want)
	}
	c.usages[2], c.usages[3] = usage{}, usage{} // the second limit, whose usages lower no quota
	v = view{}
	v.read(q, now)
	if !v.lowered || v.short || v.quotas[1].left != 60 || v.quotas[1].most != 60 {
		t.Errorf("%+v", v)
	}
	c.usages[0] = usage{sent: 1, received: now, used: 1}
	c.usages[1] = usage{sent: 1, received: now, used: 1, nextExpiry: now + 1}
	v = view{}
	v.read(q, now)
	if !v.stale {
		t.Errorf("a unit of the first of two regions has left since: %+v", v)
	}
}

// TestQuota: the quota of a limit of 8 by the usages of two other regions, eu with a share of 3 and us with one of 3.
func TestQuota(t *testing.T) {
	const now, ago, every, s = 2 * time.Hour, time.Hour, defaultPollInterval, time.Second
	r, _, _ := newStubRule(Config{})
	r.binding.Limits[0].Window = time.Hour
	old := usage{1, ago, 9, 5, now}
	type both = [2]usage
	for name, c := range map[string]struct {
		usages both
		v      view
		silent bool // both others are
		home   int  // 0 for none, or one more
		quota  quota
		stale  bool
		next   time.Duration
	}{
		"one unit":              {usages: both{{1, now, 0, 1, now + s}}, quota: quota{7, 7, 0}, next: s},
		"has left since":        {usages: both{{now, now, 0, 1, now}}, quota: quota{7, 7, 0}, stale: true, next: every},
		"nothing, long ago":     {usages: both{{1, now, 0, 0, 0}}, quota: quota{8, 8, 0}},
		"about to leave":        {usages: both{{now, now, 0, 2, now + 1}}, quota: quota{6, 6, 0}, next: ms},
		"a window ago":          {usages: both{old}, quota: quota{8, 8, 0}},
		"less than one ago":     {usages: both{{now, ago + 1, 0, 2, now + s}}, quota: quota{6, 6, 0}, next: s},
		"a window ago, a take":  {usages: both{old, old}, v: view{mayAdmit: true}, quota: quota{8, 2, 0}},
		"a window ago, awaited": {usages: both{old, old}, v: view{mayAdmit: true, start: 1}, quota: quota{8, 8, 0}},
		"silent":                {silent: true, quota: quota{2, 2, 0}},
		"silent, above a share": {usages: both{{now, now, 0, 4, now + s}}, silent: true, quota: quota{1, 1, 0}},
		"silent, below a share": {usages: both{{now, now, 0, 1, now + s}}, silent: true, quota: quota{2, 2, 0}},
		"at home":               {silent: true, home: 1, v: view{mayAdmit: true}, quota: quota{8, 8, 0}},
		"far from home":         {silent: true, home: 2, v: view{mayAdmit: true}, quota: quota{}},
	} {
		for _, region := range r.store.regions[1:] {
			region.failing.Store(0)
			if c.silent {
				region.failing.Store(1)
			}
		}
		q := &request{rule: r, limits: r.binding.Limits, home: c.home - 1}
		quota := c.v.readLimit(q, &client{usages: c.usages[:]}, 0, now)
		quota.localUsed = 0
		if quota != c.quota || c.v.stale != c.stale || c.v.nextExpiry != c.next {
			t.Errorf("%s: %+v, stale: %v, leaves after %v, want %+v, %v, %v",
				name, quota, c.v.stale, c.v.nextExpiry, c.quota, c.stale, c.next)
		}
	}
}

// TestExceeded: a request exceeds a limit whose quota is too small, but not one that is too small for it anyway. A
// charge and a cost of 0 exceed none.
func TestExceeded(t *testing.T) {
	limits := []core.Limit{core.PerDay(8)}
	charge := &core.Override{Charge: true}
	for _, c := range []struct {
		cost, most int64
		override   *core.Override
		want       int
	}{
		{3, 3, nil, -1}, {4, 3, nil, 0}, {8, 3, nil, 0}, {9, 3, nil, -1},
		{1, 0, nil, 0}, {1, 0, charge, -1}, {0, -1, nil, -1},
	} {
		v := view{quotas: []quota{{left: c.most, most: c.most}}}
		if got := v.exceeded(&core.Ask{Cost: c.cost, Override: c.override}, limits); got != c.want {
			t.Errorf("%+v exceeds limit %d, want %d", c, got, c.want)
		}
		if o := v.override(&core.Ask{Override: c.override}, limits); o.Charge != (c.override != nil) ||
			o.Limits[0].Requests != max(1, c.most) {
			t.Errorf("%+v: %+v", c, o)
		}
	}
}

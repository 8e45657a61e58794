package regions

import (
	"slices"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
)

// TestRooms: of several limits each has its own looks, and what one of them says of all stands.
func TestRooms(t *testing.T) {
	const now = time.Hour
	r, _, _ := toldRule(t, Config{})
	r.binding.Limits = []core.Limit{core.PerDay(90).Named("a"), core.PerDay(60).Named("b")}
	q := &question{rule: r, limits: r.binding.Limits, home: -1, holder: holder{1}}
	c := &client{looks: make([]look, 4)}
	r.store.table.clients[q.holder] = c
	uses := func(a, b int64) []core.Usage {
		return []core.Usage{{Used: a, ResetAfter: time.Minute}, {Used: b, ResetAfter: time.Minute}}
	}
	r.store.table.learn(c, 0, uses(1, 2), uses(10, 0), look{sent: 1, came: now})
	r.store.table.learn(c, 1, uses(1, 2), uses(20, 30), look{sent: now, came: now})
	v := view{takes: true}
	v.read(q, now)
	want := []room{{60, 30, 1}, {30, 20, 2}}
	if !slices.Equal(v.rooms, want) || !v.known || !v.lowers || !v.short || v.stale {
		t.Errorf("%+v, want %+v", v, want)
	}
	c.looks[2], c.looks[3] = look{}, look{} // the second limit, of which no look lowers anything
	v = view{}
	v.read(q, now)
	if !v.lowers || v.short || v.rooms[1].left != 60 || v.rooms[1].most != 60 {
		t.Errorf("%+v", v)
	}
	c.looks[0], c.looks[1] = look{sent: 1, came: now, used: 1}, look{sent: 1, came: now, used: 1, leaves: now + 1}
	v = view{}
	v.read(q, now)
	if !v.stale {
		t.Errorf("a unit of the first of two regions has left since: %+v", v)
	}
}

// TestRoom: what is left of a limit of 8 by the looks at two other regions, eu with a share of 3 and us with one of 3.
func TestRoom(t *testing.T) {
	const now, every, s = 2 * time.Hour, defaultLookEvery, time.Second
	r, _, _ := toldRule(t, Config{})
	r.binding.Limits[0].Window = time.Hour
	old := look{1, now - time.Hour, 9, 5, now}
	for name, c := range map[string]struct {
		looks  [2]look
		v      view
		silent bool // both others are
		home   int  // 0 for none, or one more
		room   room
		stale  bool
		leaves time.Duration
	}{
		"one unit": {looks: [2]look{{1, now, 0, 1, now + s}}, room: room{left: 7, most: 7}, leaves: s},
		"has left since": {looks: [2]look{{now, now, 0, 1, now}}, room: room{left: 7, most: 7}, stale: true,
			leaves: every},
		"nothing, long ago": {looks: [2]look{{1, now, 0, 0, 0}}, room: room{left: 8, most: 8}},
		"about to leave":    {looks: [2]look{{now, now, 0, 2, now + 1}}, room: room{left: 6, most: 6}, leaves: ms},
		"a window ago":      {looks: [2]look{old}, room: room{left: 8, most: 8}},
		"less than one ago": {
			looks: [2]look{{now, now - time.Hour + 1, 0, 2, now + s}}, room: room{left: 6, most: 6}, leaves: s,
		},
		"a window ago, a take":      {looks: [2]look{old, old}, v: view{takes: true}, room: room{left: 8, most: 2}},
		"a window ago, and awaited": {looks: [2]look{old, old}, v: view{takes: true, asked: 1}, room: room{left: 8, most: 8}},
		"silent":                    {silent: true, room: room{left: 2, most: 2}},
		"silent, above a share":     {looks: [2]look{{now, now, 0, 4, now + s}}, silent: true, room: room{left: 1, most: 1}},
		"silent, below a share":     {looks: [2]look{{now, now, 0, 1, now + s}}, silent: true, room: room{left: 2, most: 2}},
		"at home":                   {silent: true, home: 1, v: view{takes: true}, room: room{left: 8, most: 8}},
		"far from home":             {silent: true, home: 2, v: view{takes: true}, room: room{}},
	} {
		for _, region := range r.store.regions[1:] {
			region.failing.Store(0)
			if c.silent {
				region.failing.Store(1)
			}
		}
		q := &question{rule: r, limits: r.binding.Limits, home: c.home - 1}
		room := c.v.readLimit(q, &client{looks: c.looks[:]}, 0, now)
		room.local = 0
		if room != c.room || c.v.stale != c.stale || c.v.leaves != c.leaves {
			t.Errorf("%s: %+v, stale: %v, leaves after %v, want %+v, %v, %v",
				name, room, c.v.stale, c.v.leaves, c.room, c.stale, c.leaves)
		}
	}
}

// TestExceeded: a request exceeds a limit that has no room for it, but not one that is too small for it anyway. A
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
		v := view{rooms: []room{{left: c.most, most: c.most}}}
		if got := v.exceeded(&core.Ask{Cost: c.cost, Override: c.override}, limits); got != c.want {
			t.Errorf("%+v exceeds limit %d, want %d", c, got, c.want)
		}
		if o := v.override(&core.Ask{Override: c.override}, limits); o.Charge != (c.override != nil) ||
			o.Limits[0].Requests != max(1, c.most) {
			t.Errorf("%+v: %+v", c, o)
		}
	}
}

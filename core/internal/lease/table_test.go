package lease

import (
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
)

// TestAdd: a full shard gives up no entry with units to spend, and none that is being renewed. Where most entries can
// be given up, one is found.
func TestAdd(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]struct {
		entry lease
		every uint64 // the part of the entries that are so; the others are empty
		want  bool   // other clients get an entry
	}{
		"nothing to spend":     {lease{}, 1, true},
		"units to spend":       {lease{left: 1, until: now.Add(time.Second)}, 1, false},
		"in an eighth of them": {lease{left: 1, until: now.Add(time.Second)}, 8, true},
		"units that ended":     {lease{left: 1, until: now}, 1, true},
		"being renewed":        {lease{renewal: new(renewal)}, 1, false},
	} {
		s := &shard{byHolder: map[holder]*lease{}}
		for i := range uint64(shardSize) {
			e := new(lease)
			if i%c.every == 0 {
				*e = c.entry
			}
			s.byHolder[holder{client: [2]uint64{i}}] = e
		}
		for i := range uint64(100) {
			got, n := s.add(holder{client: [2]uint64{shardSize + i}}, now) != nil, len(s.byHolder)
			if got != c.want || n != shardSize {
				t.Errorf("%s: an entry: %v, want %v; %d entries, want %d", name, got, c.want, n, shardSize)
			}
		}
	}
}

// TestUnspent: a lease counts for as long as something of it can be spent.
func TestUnspent(t *testing.T) {
	table, now := NewTable(Terms{}), time.Now()
	soon := now.Add(time.Nanosecond)
	for i, e := range []lease{{left: 1, until: soon}, {left: 6, until: soon}, {left: 5, until: now}, {until: soon}} {
		table.shards[i].byHolder[holder{}] = &e
	}
	if n, units := table.Unspent(now); n != 2 || units != 7 {
		t.Errorf("%d leases with %d units, want 2 with 7", n, units)
	}
}

// TestTerms: a lease is at most a tenth of each limit and window, and worth a request.
func TestTerms(t *testing.T) {
	most := Terms{500, time.Second}
	for _, c := range []struct {
		limits []core.Limit
		want   Terms // the zero value: not leased
	}{
		{[]core.Limit{core.PerMinute(100_000)}, Terms{500, time.Second}},
		{[]core.Limit{core.PerMinute(1000)}, Terms{100, time.Second}},
		{[]core.Limit{core.PerSecond(20), core.PerHour(100_000)}, Terms{2, 100 * time.Millisecond}},
		{[]core.Limit{core.Per(100, 10001*time.Microsecond)}, Terms{10, time.Millisecond}},
		{[]core.Limit{core.PerMinute(19)}, Terms{}},
		{[]core.Limit{core.Per(100_000, 9*time.Millisecond)}, Terms{}},
		{[]core.Limit{core.PerMinute(100_000), core.PerHour(1_000_000).Using(core.SlidingCounter)}, Terms{}},
	} {
		got, ok := most.For(c.limits)
		if ok != (c.want.Size > 0) || ok && got != c.want {
			t.Errorf("%v: %+v, leased: %v, want %+v", c.limits, got, ok, c.want)
		}
	}
}

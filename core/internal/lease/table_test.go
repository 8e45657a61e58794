package lease

import (
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
)

// TestAdd: a full shard gives up no entry with units to spend, and none that is being renewed.
func TestAdd(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]struct {
		entry lease
		want  bool // another client gets an entry
	}{
		"nothing to spend": {lease{}, true},
		"units to spend":   {lease{left: 1, until: now.Add(time.Second)}, false},
		"units that ended": {lease{left: 1, until: now}, true},
		"being renewed":    {lease{renewal: new(renewal)}, false},
	} {
		s := &shard{byHolder: map[holder]*lease{}}
		for i := range uint64(shardSize) {
			s.byHolder[holder{client: [2]uint64{i}}] = &c.entry
		}
		got := s.add(holder{client: [2]uint64{shardSize}}, now) != nil
		if got != c.want || len(s.byHolder) != shardSize {
			t.Errorf("%s: an entry: %v, want %v; %d entries, want %d", name, got, c.want, len(s.byHolder), shardSize)
		}
	}
}

// TestAddFindsOne: where half of the entries of a full shard can be given up, one is found.
func TestAddFindsOne(t *testing.T) {
	s, now, failed := &shard{byHolder: map[holder]*lease{}}, time.Now(), 0
	for i := range uint64(shardSize) {
		s.byHolder[holder{client: [2]uint64{i}}] = &lease{left: int64(i % 2), until: now.Add(time.Second)}
	}
	for i := range uint64(100) {
		h := holder{client: [2]uint64{shardSize + i}}
		if s.add(h, now) == nil {
			failed++
		}
	}
	if failed > 25 { // 1 in 128, by chance
		t.Errorf("none was found for %d of 100 clients", failed)
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

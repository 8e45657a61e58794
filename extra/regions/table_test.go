package regions

import (
	"container/heap"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashlimit/sash/core"
)

// TestFull: a client without a place in the table has the share of this region, and so has one whose
// poll is overdue.
func TestFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture()
		l := s.limiter(Config{Local: "ap", MaxClients: 1}, core.PerMinute(9))
		if first, second := admitted(t, l, "first", 12), admitted(t, l, "second", 12); first != 9 || second != 3 {
			t.Errorf("%d and %d admitted, want 9 and the share of 3", first, second)
		}
		if s.notice != "region-shares" {
			t.Errorf("the notice is %q", s.notice)
		}
		time.Sleep(3 * time.Second) // the first client's place is free
		if got := admitted(t, l, "third", 12); got != 9 {
			t.Errorf("%d admitted in the place of another, want 9", got)
		}
		time.Sleep(time.Second)
	})
}

// newEventual returns a rule of 90 a minute in ap, eu and us, and polls for the given number of clients.
func newEventual(clients int) *eventual {
	e := core.Must(core.Must(New(Config{Local: "ap", Stores: three()})).Bind(
		core.Binding{Limits: []core.Limit{core.PerMinute(90).Named("limit")}})).(*eventual)
	e.pollAll(clients)
	return e
}

// pollAll queues polls for the given number of clients, each with less left than the next.
func (e *eventual) pollAll(clients int) {
	for i := range clients {
		key := fmt.Sprint(i)
		e.store.table.poll(poll{holder: e.holder(key), rule: e.rule, key: key, left: float64(i) / 1e4}, e.store.now())
	}
}

// TestOverdue: of many queued polls, 512 are sent in a PollInterval, those with the least left first. A poll that a
// request waits for comes before all of these.
func TestOverdue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const clients, n = 6000, 10 * maxPollCount
		e := newEventual(clients)
		time.Sleep(2*time.Second + 100*ms)
		for i, want := range map[int]bool{0: true, n - 1: true, n + maxPollCount: false} {
			e.store.table.mu.Lock()
			if got := e.store.table.clients[e.holder(fmt.Sprint(i))].sent > 0; got != want {
				t.Errorf("client %d is polled: %v, want %v", i, got, want)
			}
			e.store.table.mu.Unlock()
		}
		if stats := e.store.Stats(); stats.Clients != clients || stats.Overdue == 0 || stats.Overdue > clients-n {
			t.Errorf("%+v, want %d clients, and the polls of %d overdue", stats, clients, clients-n)
		}
		for _, i := range []int{0, clients - 1} {
			start, got := time.Now(), 0
			for range 90 {
				d := e.Take(t.Context(), core.Ask{Key: fmt.Sprint(i), Cost: 1, Timeout: 100 * ms})
				if d.Err != nil {
					t.Fatal(d.Err)
				}
				if d.Allowed {
					got++
				}
			}
			if elapsed := time.Since(start); got != 90 || elapsed > 2*batchDelay {
				t.Errorf("client %d: %d admitted after %v, want 90 after one poll", i, got, elapsed)
			}
		}
		settle()
	})
}

// TestTableParts: eviction, overdue polls, the order of polls, their end and update, and the clients of a rule.
func TestTableParts(t *testing.T) {
	const now = time.Minute
	table := newTable(2, defaultPollInterval)
	recent, due := &client{sent: now - silentAfter}, &client{due: 1}
	table.clients = map[holder]*client{{1}: recent, {2}: due}
	if table.evict(now) || len(table.clients) != 2 {
		t.Error("a client with a queued or recent poll is evicted")
	}
	recent.sent--
	if !table.evict(now) || len(table.clients) != 1 || table.clients[holder{2}] != due {
		t.Errorf("%v is left, want the one that is due", slices.Collect(maps.Keys(table.clients)))
	}
	for _, w := range []*poll{
		{left: 0.5, client: &client{due: now - silentAfter}}, {left: 0.1, client: &client{due: now}},
		{left: 0.9, client: &client{due: now - silentAfter - 1}},
	} {
		heap.Push(&table.queue, w)
	}
	if clients, overdue := table.count(now); clients != 1 || overdue != 1 {
		t.Errorf("%d clients, %d overdue, want 1 of each", clients, overdue)
	}
	if batch := table.batch(now); len(batch) != 3 || batch[0].left != 0.1 || batch[1].left != 0.5 {
		t.Errorf("%v, want those with the least left first", batch)
	}
	old, newest := &poll{client: &client{}}, &poll{client: &client{}}
	old.client, newest.client.poll = newest.client, newest
	kept := newest.client
	if table.finish(old); kept.poll != newest {
		t.Error("a poll that has ended ends the next")
	}
	if table.finish(newest); kept.poll != nil {
		t.Error("a poll that has ended stays")
	}
	c := &client{usages: make([]usage, 2)}
	for _, found := range []usage{{sent: 2, received: 3}, {sent: 1, received: 9}} { // the second is of an earlier poll
		table.update(c, 1, []core.Usage{{Used: 4}}, []core.Usage{{Used: 1, ResetAfter: 5}}, found)
		if want := (usage{2, 3, 4, 1, 8}); c.usages[1] != want || c.usages[0] != (usage{}) {
			t.Errorf("%+v, want %+v", c.usages, want)
		}
	}
	e, other := newEventual(0), newEventual(0)
	if k := e.holder("k"); k != e.holder("k") || k == other.holder("k") || k == e.holder("l") {
		t.Error("a client is not one under a rule, or not another one under another rule")
	}
}

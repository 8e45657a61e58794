package regions

import (
	"cmp"
	"container/heap"
	"hash/maphash"
	"sync"
	"time"
)

const (
	batchDelay   = 10 * time.Millisecond // time in which polls are collected into a batch
	maxPollCount = 512                   // largest number of polls in a PollInterval
	silentAfter  = 2 * time.Second       // time after which a region is silent, and a queued poll overdue
	sample       = 8                     // entries examined to find one to evict
)

// table holds the polled usages of busy clients. It is safe for concurrent use.
type table struct {
	most  int
	every time.Duration

	mu      sync.Mutex // guards the rest, and all clients
	clients map[holder]*client
	queue   queue
	sending bool // a goroutine sends the polls of the queue
}

// holder is the hash of a client under a rule.
type holder [2]uint64

// client holds the polled usages of a client under a rule.
type client struct {
	due    time.Duration // time at which a poll was queued; 0 if none is
	sent   time.Duration // departure of the latest poll
	poll   *poll         // latest poll, while it is queued or in flight
	usages []usage       // by limit, and within a limit by other region in order
}

// usage is the answer of another region to a poll, for one limit. It is zero before the first.
type usage struct {
	sent, received time.Duration
	localUsed      int64         // units counted in the local region before the poll
	used           int64         // units counted in the other region
	nextExpiry     time.Duration // time at which the first of these leaves; 0 if there are none
}

// poll is a poll of all other regions for a client, queued or in flight.
type poll struct {
	holder
	rule   *rule
	key    string
	client *client
	done   chan struct{} // closed at the end of the poll; nil while no request waits
	left   float64       // fraction of the limit that is left; urgent if a request waits
	place  int           // index in the queue
}

// urgent is less than every fraction.
const urgent = -1

// queue is a heap of polls: polls for waiting requests come first, and then polls by the fraction left.
type queue []*poll

func (q queue) Len() int { return len(q) }

func (q queue) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(q[i].left, q[j].left), cmp.Compare(q[i].client.due, q[j].client.due)) < 0
}

func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].place, q[j].place = i, j
}

func (q *queue) Push(w any) {
	w.(*poll).place = len(*q)
	*q = append(*q, w.(*poll))
}

func (q *queue) Pop() any {
	last := len(*q) - 1
	w := (*q)[last]
	(*q)[last], *q = nil, (*q)[:last]
	return w
}

func newTable(most int, every time.Duration) *table {
	return &table{most: most, every: every, clients: map[holder]*client{}}
}

// holder returns the hash of the client under the rule.
func (e *eventual) holder(key string) holder {
	return holder{maphash.String(e.seed[0], key), maphash.String(e.seed[1], key)}
}

// poll queues a poll unless one was sent within the last PollInterval, or since now if a request waits for it. It
// returns a channel that is closed at the end of the poll, or nil if no request waits. It reports false if the table is
// full.
func (t *table) poll(w poll, now time.Duration) (<-chan struct{}, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.clients[w.holder]
	if c == nil {
		if c = t.add(w.holder, w.rule, now); c == nil {
			return nil, false
		}
	}
	waits := w.left == urgent
	switch {
	case c.due == 0 && (c.sent == 0 || now-c.sent >= t.every || waits && c.sent < now):
		c.due, c.poll, w.client = now, &w, c
		heap.Push(&t.queue, &w)
		if !t.sending {
			t.sending = true
			go t.send(w.rule.store.now)
		}
	case c.due > 0 && waits:
		c.poll.left = urgent
		heap.Fix(&t.queue, c.poll.place)
	}
	switch {
	case !waits:
		return nil, true
	case c.poll == nil:
		return over, true
	case c.poll.done == nil: // made on demand: it takes half as much memory as a client
		c.poll.done = make(chan struct{})
	}
	return c.poll.done, true
}

// over is the closed channel of a poll that has ended.
var over = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// add makes an entry for a client, or returns nil if the table is full. t.mu must be held.
func (t *table) add(h holder, rule *rule, now time.Duration) *client {
	if len(t.clients) >= t.most && !t.evict(now) {
		return nil
	}
	c := &client{usages: make([]usage, len(rule.binding.Limits)*(len(rule.order)-1))}
	t.clients[h] = c
	return c
}

// evict deletes an idle client's entry, and reports whether there was one in a sample. t.mu must be held.
func (t *table) evict(now time.Duration) bool {
	scanned := 0
	for other, c := range t.clients {
		if c.due == 0 && now-c.sent > silentAfter {
			delete(t.clients, other)
			return true
		}
		if scanned++; scanned == sample {
			break
		}
	}
	return false
}

// send sends the polls of the queue until it is empty.
func (t *table) send(now func() time.Duration) {
	for pause := batchDelay; ; {
		time.Sleep(pause)
		batch := t.batch(now())
		if batch == nil {
			return
		}
		for _, w := range batch {
			go w.rule.runPoll(w)
		}
		pause = max(batchDelay, t.every*time.Duration(len(batch))/maxPollCount)
	}
}

// batch takes polls from the queue: as many as a batchDelay allows, and all that requests wait for.
func (t *table) batch(now time.Duration) (batch []*poll) {
	t.mu.Lock()
	defer t.mu.Unlock()
	perBatch := max(1, int(maxPollCount*batchDelay/t.every))
	for len(t.queue) > 0 && len(batch) < maxPollCount && (len(batch) < perBatch || t.queue[0].left == urgent) {
		w := heap.Pop(&t.queue).(*poll)
		w.client.due, w.client.sent = 0, now
		batch = append(batch, w)
	}
	if batch == nil {
		t.sending, t.queue = false, nil
	}
	return batch
}

// count returns the number of clients in the table, and the number of clients with an overdue poll.
func (t *table) count(now time.Duration) (clients, overdue int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, w := range t.queue {
		if w.client.isOverdue(now) {
			overdue++
		}
	}
	return len(t.clients), overdue
}

// isOverdue reports whether a poll is queued for so long that the share decides. The table's lock must be held.
func (c *client) isOverdue(now time.Duration) bool { return c.due > 0 && now-c.due > silentAfter }

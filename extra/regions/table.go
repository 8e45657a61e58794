package regions

import (
	"cmp"
	"container/heap"
	"hash/maphash"
	"sync"
	"time"
)

const (
	gathers = 10 * time.Millisecond // for so long a look waits for others to go with it
	atOnce  = 512                   // looks at most in a LookEvery
	silence = 2 * time.Second       // after which a region is silent, and a look that was due is overdue
	sample  = 8                     // entries at most that are searched for one to give up
)

// table holds the looks at busy clients. It is safe for concurrent use.
type table struct {
	most  int
	every time.Duration

	mu      sync.Mutex // guards the rest, and all clients
	clients map[holder]*client
	queue   queue
	sending bool // a goroutine sends the wishes of the queue
}

// holder is the hash of a client under a rule.
type holder [2]uint64

// client holds the looks at a client under a rule.
type client struct {
	due   time.Duration // when a look was put into the queue; 0 if none is there
	sent  time.Duration // when the latest look was sent
	wish  *wish         // the latest look, while it is due or under way
	looks []look        // by limit, and by other region in their order
}

// look is the result of a Usage call to another region, for one limit. It is zero before the first.
type look struct {
	sent, came time.Duration
	local      int64         // units that counted here when it was sent
	used       int64         // units that counted there
	leaves     time.Duration // when the first of these leaves; 0 if there are none
}

// wish is a look that is to be sent.
type wish struct {
	holder
	rule   *rule
	key    string
	client *client
	done   chan struct{} // closed when the look is over; nil while no request waits for it
	left   float64       // the part of the limit that is left; awaited: a request waits for the look
	place  int           // in the queue
}

// awaited is less than is left of any limit.
const awaited = -1

// queue is a heap of wishes: first the ones that requests wait for, and then by how near the client is to its limit.
type queue []*wish

func (q queue) Len() int { return len(q) }

func (q queue) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(q[i].left, q[j].left), cmp.Compare(q[i].client.due, q[j].client.due)) < 0
}

func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].place, q[j].place = i, j
}

func (q *queue) Push(w any) {
	w.(*wish).place = len(*q)
	*q = append(*q, w.(*wish))
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

// holder returns the client under the rule.
func (e *eventual) holder(key string) holder {
	return holder{maphash.String(e.seeds[0], key), maphash.String(e.seeds[1], key)}
}

// wish asks for a look at a client unless one was sent within the last LookEvery, or since now if a request waits for
// it. It returns a channel that is closed when the look is over, or nil if no request waits. It reports false if the
// table has no place for the client.
func (t *table) wish(w wish, now time.Duration) (<-chan struct{}, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.clients[w.holder]
	if c == nil {
		if c = t.add(w.holder, w.rule, now); c == nil {
			return nil, false
		}
	}
	waits := w.left == awaited
	switch {
	case c.due == 0 && (c.sent == 0 || now-c.sent >= t.every || waits && c.sent < now):
		c.due, c.wish, w.client = now, &w, c
		heap.Push(&t.queue, &w)
		if !t.sending {
			t.sending = true
			go t.send(w.rule.store.now)
		}
	case c.due > 0 && waits:
		c.wish.left = awaited
		heap.Fix(&t.queue, c.wish.place)
	}
	switch {
	case !waits:
		return nil, true
	case c.wish == nil:
		return over, true
	case c.wish.done == nil: // a channel for each look would take half as much memory as its client
		c.wish.done = make(chan struct{})
	}
	return c.wish.done, true
}

// over is closed: it stands for a look that is over.
var over = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// add makes an entry for a client, or returns nil if the table is full. t.mu must be held.
func (t *table) add(h holder, rule *rule, now time.Duration) *client {
	if len(t.clients) >= t.most && !t.giveUp(now) {
		return nil
	}
	c := &client{looks: make([]look, len(rule.binding.Limits)*(len(rule.order)-1))}
	t.clients[h] = c
	return c
}

// giveUp deletes the entry of a client that has not asked lately, and reports whether it has found one among a few.
// t.mu must be held.
func (t *table) giveUp(now time.Duration) bool {
	searched := 0
	for other, c := range t.clients {
		if c.due == 0 && now-c.sent > silence {
			delete(t.clients, other)
			return true
		}
		if searched++; searched == sample {
			break
		}
	}
	return false
}

// send sends the looks of the queue, and ends when there are none.
func (t *table) send(now func() time.Duration) {
	for pause := gathers; ; {
		time.Sleep(pause)
		batch := t.batch(now())
		if batch == nil {
			return
		}
		for _, w := range batch {
			go w.rule.look(w)
		}
		pause = max(gathers, t.every*time.Duration(len(batch))/atOnce)
	}
}

// batch takes wishes from the queue: as many as may go in the time in which looks gather, and all the ones that
// requests wait for.
func (t *table) batch(now time.Duration) (batch []*wish) {
	t.mu.Lock()
	defer t.mu.Unlock()
	usual := max(1, int(atOnce*gathers/t.every))
	for len(t.queue) > 0 && len(batch) < atOnce && (len(batch) < usual || t.queue[0].left == awaited) {
		w := heap.Pop(&t.queue).(*wish)
		w.client.due, w.client.sent = 0, now
		batch = append(batch, w)
	}
	if batch == nil {
		t.sending, t.queue = false, nil
	}
	return batch
}

// count returns the number of clients in the table, and of overdue ones among them.
func (t *table) count(now time.Duration) (clients, overdue int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, w := range t.queue {
		if w.client.overdue(now) {
			overdue++
		}
	}
	return len(t.clients), overdue
}

// overdue reports whether a look has been due for so long that the share decides. The table's lock must be held.
func (c *client) overdue(now time.Duration) bool { return c.due > 0 && now-c.due > silence }

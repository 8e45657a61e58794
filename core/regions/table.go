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
	atOnce  = 512                   // clients at most that are looked at in an Every
	silence = 2 * time.Second       // after which a region is silent, and a look that was due is overdue
	sample  = 8                     // entries that are looked at for one to give up
)

// table is what this process knows of busy clients in the other regions. It is safe for
// concurrent use.
type table struct {
	most  int
	every time.Duration

	mu      sync.Mutex // guards what follows, and all clients
	clients map[holder]*client
	queue   queue
	sending bool // a goroutine sends what is in the queue
}

// holder is a client under a rule, by its hash.
type holder [2]uint64

// client is what is known of a client under a rule.
type client struct {
	due   time.Duration // since when a look is in the queue; 0 if none is
	sent  time.Duration // when the latest look was sent
	wish  *wish         // the latest look, while it is due or under way
	looks []look        // by limit, and by other region in their order
}

// look is what a look has found of one limit in another region. It is zero before the first.
type look struct {
	sent, came time.Duration
	local      int64         // units that counted here when it was sent
	used       int64         // units that counted there
	leaves     time.Duration // when the first of these counts no more; 0 if none counts
}

// wish is a look that is to be sent.
type wish struct {
	holder
	rule   *eventual
	key    string
	client *client       // nil once the look is over
	done   chan struct{} // closed when the look is over; nil while no request waits for it
	left   float64       // what is left of the limit that binds, as a part of it; awaited: a request waits for the look
	place  int           // in the queue
}

// awaited is less than is left of any limit.
const awaited = -1

// queue is a heap of wishes. One that a request waits for comes first, and then those of clients near their limit.
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

// wish asks for a look at a client unless one has been sent within the last Every, or since now if a request waits
// for it. It returns the latest look, or nil if there is no place for the client.
func (t *table) wish(w wish, now time.Duration) *wish {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.clients[w.holder]
	if c == nil {
		if c = t.add(w.holder, w.rule, now); c == nil {
			return nil
		}
	}
	waits := w.left == awaited
	switch {
	case c.due == 0 && (c.sent == 0 || now-c.sent >= t.every || waits && c.sent < now):
		c.due, c.wish, w.client = now, &w, c
		heap.Push(&t.queue, &w)
		if !t.sending {
			t.sending = true
			go t.send(w.rule.now)
		}
	case c.due > 0 && waits:
		c.wish.left = awaited
		heap.Fix(&t.queue, c.wish.place)
	}
	return cmp.Or(c.wish, past)
}

// past stands for a look that is over.
var past = &wish{done: func() chan struct{} { c := make(chan struct{}); close(c); return c }()}

// over returns a channel that is closed when a look is over. One for each look that nobody waits for would take half as
// much memory as its client.
func (t *table) over(w *wish) <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w.done == nil {
		w.done = make(chan struct{})
		if w.client == nil {
			close(w.done)
		}
	}
	return w.done
}

// add makes an entry for a client, or returns nil if the table is full. t.mu must be held.
func (t *table) add(h holder, rule *eventual, now time.Duration) *client {
	if len(t.clients) >= t.most && !t.giveUp(now) {
		return nil
	}
	c := &client{looks: make([]look, len(rule.Limits)*(len(rule.regions)-1))}
	t.clients[h] = c
	return c
}

// giveUp gives up the entry of a client that has not asked lately, and reports whether it has found
// one soon. t.mu must be held.
func (t *table) giveUp(now time.Duration) bool {
	looked := 0
	for other, c := range t.clients {
		if c.due == 0 && now-c.sent > silence {
			delete(t.clients, other)
			return true
		}
		if looked++; looked == sample {
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

// batch takes wishes from the queue: as many as may go in the time in which looks gather, and all that a
// request waits for.
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

// count returns how many clients are in the table, and of how many a look is overdue.
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

package clientlimit

import (
	"container/heap"
	"sync"
	"time"
)

// maxPauses is the largest number of paused keys.
const maxPauses = 1024

// pauses holds the pauses that servers requested. The zero value is empty.
type pauses struct {
	mu    sync.Mutex // guards the rest
	byKey map[string]*pause
	order order
}

// pause is the pause of one key.
type pause struct {
	key   string
	until time.Time
	place int // index in the order
}

// remaining returns the rest of the key's pause, or 0.
func (p *pauses) remaining(key string) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	known, ok := p.byKey[key]
	if !ok {
		return 0
	}
	remaining := time.Until(known.until)
	if remaining <= 0 {
		heap.Remove(&p.order, known.place)
		delete(p.byKey, key)
	}
	return max(0, remaining)
}

// start starts a pause of the key, unless one ends later. If there are maxPauses, it drops the one that ends first.
func (p *pauses) start(key string, wait time.Duration) {
	if wait <= 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	end := time.Now().Add(wait)
	if known, ok := p.byKey[key]; ok {
		if end.After(known.until) {
			known.until = end
			heap.Fix(&p.order, known.place)
		}
		return
	}
	if p.byKey == nil {
		p.byKey = map[string]*pause{}
	}
	if len(p.order) >= maxPauses {
		delete(p.byKey, heap.Pop(&p.order).(*pause).key)
	}
	added := &pause{key: key, until: end}
	p.byKey[key] = added
	heap.Push(&p.order, added)
}

// order is a heap of pauses by their end.
type order []*pause

func (o order) Len() int           { return len(o) }
func (o order) Less(i, j int) bool { return o[i].until.Before(o[j].until) }

func (o order) Swap(i, j int) {
	o[i], o[j] = o[j], o[i]
	o[i].place, o[j].place = i, j
}

func (o *order) Push(p any) {
	p.(*pause).place = len(*o)
	*o = append(*o, p.(*pause))
}

func (o *order) Pop() any {
	last := len(*o) - 1
	p := (*o)[last]
	(*o)[last], *o = nil, (*o)[:last]
	return p
}

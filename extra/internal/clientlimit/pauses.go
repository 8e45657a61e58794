package clientlimit

import (
	"container/heap"
	"sync"
	"time"
)

// maxPauses is the most keys that may have a pause at once.
const maxPauses = 1024

// pauses are the times until which servers have asked for no more requests. The zero value
// has none.
type pauses struct {
	mu    sync.Mutex // guards the rest
	byKey map[string]*pause
	order order
}

// pause is that of one key.
type pause struct {
	key   string
	until time.Time
	place int // in the order
}

// left returns the rest of the pause of the key, 0 if there is none.
func (p *pauses) left(key string) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	known, ok := p.byKey[key]
	if !ok {
		return 0
	}
	left := time.Until(known.until)
	if left <= 0 {
		heap.Remove(&p.order, known.place)
		delete(p.byKey, key)
	}
	return max(0, left)
}

// note begins a pause of the key. A pause that ends later stays. Where the pauses are full, the one that ends first is
// dropped.
func (p *pauses) note(key string, wait time.Duration) {
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
	begun := &pause{key: key, until: end}
	p.byKey[key] = begun
	heap.Push(&p.order, begun)
}

// order is a heap of pauses by when they end, so that none has to be looked for.
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

package memstore

import (
	"fmt"
	"hash/maphash"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/window"
)

// rules numbers the limits of the rules that a store has bound: slots name
// them by number. It only grows; what it takes is part of the store's bytes.
type rules struct {
	mu          sync.Mutex
	idents      map[hash]uint32
	infoNumbers map[window.Limit]uint32
	spans       []int64 // by class
	bytes       int64

	// infos is read without the lock: every list that is published after a
	// number was made has that number.
	infos atomic.Pointer[[]limitInfo]
}

// ident is the identity of a limit's counts: limits with the same ident share
// them. A hash stands for it, as for a key.
type ident struct {
	name, rule, limit string
	algorithm         core.Algorithm
	window            time.Duration
}

// limitInfo is a limit as the store counts it. Limits of one ident differ in N alone, and with a core.Bucket in W too.
type limitInfo struct {
	window.Bound
	class uint8 // of windows that share a part of a sketch
}

const (
	// The most bytes of an ident and of a limitInfo: an entry of a map that has just
	// grown, and an entry of a list that append has just grown.
	identBytes = 64
	infoBytes  = 160

	// Rules may take a quarter of a store.
	rulesShare = 4

	// Each of the first ownClasses windows has a class of its own, with epochs as
	// long as the window. Others share classes by their lengths.
	ownClasses = 28
	maxClasses = 64
)

func (r *rules) of(s *slot) *limitInfo { return &(*r.infos.Load())[s.infoNumber()] }

// register returns the numbers of a limit's ident and limitInfo. A new one takes
// memory from the store.
func (s *Store) register(rule core.Binding, l core.Limit) (identNumber, infoNumber uint32, err error) {
	r := &s.rules
	r.mu.Lock()
	defer r.mu.Unlock()
	if !window.Known(l.Algorithm) {
		return 0, 0, fmt.Errorf("sash: the memstore does not know the algorithm of limit %v", l)
	}
	id := ident{rule.Name, rule.Rule, l.Name, l.Algorithm, l.Window}
	if l.Algorithm.IsLinear() {
		id.window = 0
	}
	h := hash(maphash.Comparable(s.seed, id))
	b := window.Limit{N: l.Requests, W: l.Window.Microseconds(), Algorithm: l.Algorithm}
	identNumber, identKnown := r.idents[h]
	infoNumber, infoKnown := r.infoNumbers[b]
	var bytes int64
	if !identKnown {
		bytes += identBytes
	}
	if !infoKnown {
		bytes += infoBytes
	}
	if bytes == 0 {
		return identNumber, infoNumber, nil
	}
	if r.bytes+bytes > s.max/rulesShare || !s.makeRoomForRules(bytes) {
		return 0, 0, fmt.Errorf("sash: rule %q does not fit into the memstore: the store already holds %d limits, "+
			"which take %d of %d bytes, and rules may take a quarter; bind a rule once and use its Limiter again, "+
			"or give memstore.WithMaxBytes more", rule.Rule, len(r.idents), r.bytes, s.max)
	}
	r.bytes += bytes
	if !identKnown {
		identNumber = uint32(len(r.idents))
		r.idents[h] = identNumber
	}
	if !infoKnown {
		infoNumber = r.add(b)
	}
	return identNumber, infoNumber, nil
}

// add publishes a list with one more limitInfo and returns its number. r.mu must be
// held.
func (r *rules) add(limit window.Limit) uint32 {
	list := *r.infos.Load()
	n := uint32(len(list))
	r.infoNumbers[limit] = n
	class := r.class(limit.Epoch())
	// Readers of the old list do not read beyond its end.
	list = append(list, limitInfo{window.Bound{Limit: limit, Span: r.spans[class]}, class})
	r.infos.Store(&list)
	return n
}

// class returns the class of windows with epochs of at least w. An epoch is w long, or
// at least twice as long where windows of other lengths share the class: only then do
// two epochs hold the two fixed windows of any counter. r.mu must be held.
func (r *rules) class(w int64) uint8 {
	span := w
	if len(r.spans) >= ownClasses && !slices.Contains(r.spans, w) {
		span = 1 << bits.Len64(uint64(2*w-1))
	}
	if !slices.Contains(r.spans, span) {
		r.spans = append(r.spans, span)
	}
	return uint8(slices.Index(r.spans, span))
}

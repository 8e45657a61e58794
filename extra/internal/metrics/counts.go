package metrics

import (
	"maps"
	"strings"
	"sync"
	"sync/atomic"
)

const (
	// maxKeys bounds the keys that have counters of their own. Twice as many exist at most: beyond the
	// bound, what differs only in the last part is counted together.
	maxKeys = 1000

	// maxText bounds the bytes of a part of a key.
	maxText = 256

	// other stands for what exceeds maxKeys.
	other = "other"
)

// key names what is counted: a limiter, its rule and a route or a code, or a store.
type key [3]string

// counts counts by a key and an index, such as an outcome. It is safe for concurrent use.
type counts struct {
	width int // indexes are below it
	zeros int // a new row is listed as a whole while the list has no more counters than that

	rows atomic.Pointer[table]

	mu   sync.Mutex // held while rows and counters are added
	list []counter  // in the order in which they came; its elements do not change
}

// row holds the counters of a key.
type row struct {
	key
	whole bool // all of them are listed, else the ones that have counted
	n     []atomic.Uint64
}

// counter is one of a row.
type counter struct {
	*row
	index int
}

// scanned bounds the rows that are compared one by one before a map is asked. To compare a
// few keys is cheaper than to hash one.
const scanned = 8

// table holds rows. It does not change once others can see it.
type table struct {
	first []*row // up to scanned
	all   map[key]*row
}

// find returns the row of k itself, or nil.
func (t *table) find(k key) *row {
	for _, r := range t.first {
		if r.key == k {
			return r
		}
	}
	if len(t.first) < scanned {
		return nil
	}
	return t.all[k]
}

func newCounts(width, zeros int) *counts {
	c := &counts{width: width, zeros: zeros}
	c.rows.Store(&table{})
	return c
}

// add counts under k.
func (c *counts) add(k key, index int) {
	r := c.rows.Load().find(k)
	if r == nil {
		r = c.row(k, false)
	}
	if r.n[index].Add(1) == 1 && !r.whole {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.list = append(c.list, counter{r, index})
	}
}

// row returns the row that k is counted in, which is made if there is none yet.
func (c *counts) row(k key, whole bool) *row {
	for i := range k {
		k[i] = Clean(k[i])
	}
	if r := c.find(k); r != nil {
		return r
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.find(k); r != nil {
		return r
	}
	rows := c.rows.Load()
	r := &row{rows.bounded(k), whole || len(c.list)+c.width <= c.zeros, make([]atomic.Uint64, c.width)}
	for i := range r.n {
		if r.whole {
			c.list = append(c.list, counter{r, i})
		}
	}
	more := &table{rows.first, map[key]*row{r.key: r}}
	maps.Copy(more.all, rows.all)
	if len(more.first) < scanned {
		more.first = append(more.first[:len(more.first):len(more.first)], r)
	}
	c.rows.Store(more)
	return r
}

// find returns the row that k is counted in, or nil.
func (c *counts) find(k key) *row {
	rows := c.rows.Load()
	return rows.find(rows.bounded(k))
}

// bounded returns the key under which k is counted: k itself while there is room, else one
// for all last parts, or one for all keys.
func (t *table) bounded(k key) key {
	if len(t.all) < maxKeys || t.all[k] != nil {
		return k
	}
	k[2] = other
	if len(t.all) < 2*maxKeys-1 || t.all[k] != nil {
		return k
	}
	return key{other, other, other}
}

// all returns the counters that are listed. An exporter that tells fewer sets of labels
// apart adds up the last ones, so the order stays.
func (c *counts) all() []counter {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.list
}

// Clean returns text as exporters take it: UTF-8 of at most 256 bytes, which holds no memory
// of a longer text. Other text would make an exporter fail, with all that it has to tell.
func Clean(text string) string {
	return strings.Clone(strings.ToValidUTF8(text[:min(len(text), maxText)], "\uFFFD"))
}

package metrics

import (
	"maps"
	"strings"
	"sync"
	"sync/atomic"
)

const (
	// maxKeys is the largest number of keys with their own counters. Beyond it keys that differ only in the last part
	// share counters. There are at most twice as many keys.
	maxKeys = 1000

	// maxText is the largest length in bytes of a part of a key.
	maxText = 256

	// other replaces parts of keys beyond maxKeys.
	other = "other"
)

// key is a limiter, its rule and a route or a code; or a store.
type key [3]string

// counts counts by a key and an index, such as an outcome. It is safe for concurrent use.
type counts struct {
	width int // indexes are below it
	zeros int // largest size of the list for which all counters of a new row are listed

	rows atomic.Pointer[table]

	mu   sync.Mutex // held while rows and counters are added
	list []counter  // in order of appearance; its elements do not change
}

// row holds the counters of a key.
type row struct {
	key
	whole bool // all counters are listed; otherwise only counters above 0
	n     []atomic.Uint64
}

// counter is a counter of a row.
type counter struct {
	*row
	index int
}

// maxScan is the number of rows that find compares before it uses the map. To compare a few keys is cheaper than to
// hash one.
const maxScan = 8

// table holds rows. It is immutable once stored.
type table struct {
	first []*row // up to maxScan
	all   map[key]*row
}

// find returns the row with exactly the key k, or nil.
func (t *table) find(k key) *row {
	for _, r := range t.first {
		if r.key == k {
			return r
		}
	}
	if len(t.first) < maxScan {
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

// row returns the row that counts k, and adds it if necessary.
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
	if len(more.first) < maxScan {
		more.first = append(more.first[:len(more.first):len(more.first)], r)
	}
	c.rows.Store(more)
	return r
}

// find returns the row that counts k, or nil.
func (c *counts) find(k key) *row {
	rows := c.rows.Load()
	return rows.find(rows.bounded(k))
}

// bounded returns the key that counts k: k itself while there is room, and then a key for all last parts, or for all
// keys.
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

// all returns the listed counters in a constant order: an exporter with a bound on sets of labels merges the last ones.
func (c *counts) all() []counter {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.list
}

// Clean returns a copy of text that exporters accept: valid UTF-8 of at most 256 bytes. Other text would make the whole
// export fail.
func Clean(text string) string {
	return strings.Clone(strings.ToValidUTF8(text[:min(len(text), maxText)], "\uFFFD"))
}

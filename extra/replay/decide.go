package replay

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
)

// requests are the requests of a log, by client.
type requests struct {
	at          []uint64 // as Log.times; the requests of a client by time
	start       []int    // where the requests of a client begin; one more than there are clients
	first, last int64    // in microseconds
}

// of returns the requests of a client.
func (q *requests) of(client int) []uint64 { return q.at[q.start[client]:q.start[client+1]] }

// clients returns the number of clients.
func (q *requests) clients() int { return len(q.start) - 1 }

// group returns the requests of the log by client, and sorts them by time. It gives up what was read.
func (l *Log) group() *requests {
	q := &requests{at: make([]uint64, len(l.times)), start: make([]int, len(l.names)+1), first: latest}
	for _, id := range l.clients {
		q.start[id+1]++
	}
	for c := range l.names {
		q.start[c+1] += q.start[c]
	}
	next := slices.Clone(q.start)
	for i, id := range l.clients {
		q.at[next[id]] = l.times[i]
		next[id]++
	}
	l.times, l.clients, l.ids = nil, nil, nil
	for c := range l.names {
		of := q.of(c)
		slices.Sort(of)
		q.first, q.last = min(q.first, int64(of[0]>>8)), max(q.last, int64(of[len(of)-1]>>8))
	}
	return q
}

// busiest returns the most requests of a client in any window: in the time after t-window up to t, for any t.
func busiest(of []uint64, window time.Duration) (most int) {
	w, from := uint64(window.Microseconds())<<8, 0
	for i, at := range of {
		for at&^0xff-of[from]&^0xff >= w {
			from++
		}
		most = max(most, i-from+1)
	}
	return most
}

// What is decided on one store, so that the memory is bounded and the store is never full: so many clients and
// requests, and the client that goes beyond.
const (
	batchClients, batchRequests, batchBytes = 1 << 12, 1 << 17, 1 << 28
)

// limiters returns a limiter for the limits of each route that has some, on a store with a clock. Route 0 is for all.
func limiters(limits [][]core.Limit, now *time.Time) (*memstore.Store, []*core.Limiter, error) {
	all, clock := make([]*core.Limiter, len(limits)), func() time.Time { return *now }
	store := memstore.New(memstore.WithMaxBytes(batchBytes), memstore.WithClock(clock))
	for i, of := range limits {
		if len(of) == 0 {
			continue
		}
		limiter, err := core.New(core.Config{Name: strconv.Itoa(i), Store: store, Limits: of, Observer: core.Silent})
		if err != nil {
			return nil, nil, err
		}
		all[i] = limiter
	}
	return store, all, nil
}

// event is a request of a client, at as Log.times.
type event struct {
	at     uint64
	client int
}

// refusal is called with a request that is refused by the limits of a route, or by the limits for all, route 0.
type refusal func(e event, route int, d *core.Decision)

// decide has the clients that wants returns true for decided under limits by route. The clients go through several
// engines, one batch of clients after the other.
func (q *requests) decide(limits [][]core.Limit, names []string, wants func(client int) bool, refused refusal) error {
	var batch []event
	for client, n := 0, 0; client < q.clients(); n = 0 {
		batch = batch[:0]
		for ; client < q.clients() && n < batchClients && len(batch) < batchRequests; client++ {
			if !wants(client) {
				continue
			}
			n++
			for _, at := range q.of(client) {
				batch = append(batch, event{at, client})
			}
		}
		slices.SortFunc(batch, func(a, b event) int { return cmp.Compare(a.at, b.at) })
		if err := decideBatch(limits, names, batch, refused); err != nil {
			return err
		}
	}
	return nil
}

// decideBatch has the limiters of one engine decide requests, which are sorted by time.
func decideBatch(limits [][]core.Limit, names []string, batch []event, refused refusal) error {
	var now time.Time
	store, all, err := limiters(limits, &now)
	if err != nil {
		return err
	}
	ctx := context.Background()
	for _, r := range batch {
		now = time.UnixMicro(int64(r.at >> 8))
		for _, route := range [...]int{0, int(r.at & 0xff)} {
			if route >= len(all) || all[route] == nil { // the page tries limits for all, without those of routes
				continue
			}
			d := all[route].Allow(ctx, names[r.client])
			if d.Err != nil {
				return d.Err
			} else if !d.Allowed {
				refused(r, route, &d)
			}
			if !d.Allowed || r.at&0xff == 0 {
				break
			}
		}
	}
	if s := store.Stats(); s.Evictions+s.SketchOnly+s.Full > 0 {
		return errors.New("sash: the requests of a window do not fit into the store of a replay: try smaller limits")
	}
	return nil
}

// try returns how many requests and clients a limit would have refused, and how many requests it decided. It decides
// clients with more than a number of requests in a window; most has the busiest window of each.
func (q *requests) try(l core.Limit, names []string, most []uint32, above int) (requests, clients, decided int,
	err error,
) {
	wants := func(client int) bool {
		if int(most[client]) <= above {
			return false
		}
		decided += len(q.of(client))
		return true
	}
	refused := map[int]bool{}
	err = q.decide([][]core.Limit{{l}}, names, wants, func(e event, _ int, _ *core.Decision) {
		requests++
		refused[e.client] = true
	})
	return requests, len(refused), decided, err
}

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

// requests are the requests of each client as in Log.times, by time.
type requests [][]uint64

// group returns the requests of the log by client. It gives up what was read.
func (l *Log) group() requests {
	left, all := make([]int, len(l.names)), make([]uint64, len(l.times)) // left of each client
	for _, id := range l.clients {
		left[id]++
	}
	q := make(requests, len(l.names))
	for c, n := range left {
		q[c], all = all[:n:n], all[n:]
	}
	for i, id := range slices.Backward(l.clients) {
		left[id]--
		q[id][left[id]] = l.times[i]
	}
	l.times, l.clients, l.ids = nil, nil, nil
	for _, of := range q {
		slices.Sort(of)
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

// limiters returns a limiter for each rule that has limits, on a store with a clock.
func limiters(rules []Route, now *time.Time) (*memstore.Store, []*core.Limiter, error) {
	all, clock := make([]*core.Limiter, len(rules)), func() time.Time { return *now }
	store := memstore.New(memstore.WithMaxBytes(batchBytes), memstore.WithClock(clock))
	for i, of := range rules {
		if len(of.Limits) == 0 {
			continue
		}
		limiter, err := core.New(core.Config{
			Name: strconv.Itoa(i), Store: store, Limits: of.Limits, Observer: core.Silent,
		})
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

// refusal is called with a request that is refused by a limit of a rule.
type refusal func(e event, rule int, d *core.Decision)

// decide has the clients that wants returns true for decided under rules. The clients go through several engines, one
// batch of clients after the other.
func (r *Report) decide(rules []Route, wants func(client int) bool, refused refusal) error {
	var batch []event
	for client, n := 0, 0; client < len(r.q); n = 0 {
		batch = batch[:0]
		for ; client < len(r.q) && n < batchClients && len(batch) < batchRequests; client++ {
			if !wants(client) {
				continue
			}
			n++
			for _, at := range r.q[client] {
				batch = append(batch, event{at, client})
			}
		}
		slices.SortFunc(batch, func(a, b event) int { return cmp.Compare(a.at, b.at) })
		if err := r.decideBatch(rules, batch, refused); err != nil {
			return err
		}
	}
	return nil
}

// decideBatch has the limiters of one engine decide requests, which are sorted by time.
func (r *Report) decideBatch(rules []Route, batch []event, refused refusal) error {
	var now time.Time
	store, all, err := limiters(rules, &now)
	if err != nil {
		return err
	}
	for _, e := range batch {
		now = time.UnixMicro(int64(e.at >> 8))
		for _, rule := range [...]int{0, int(e.at & 0xff)} {
			if rule >= len(all) || all[rule] == nil { // the page tries limits for all, without those of routes
				continue
			}
			d := all[rule].Allow(context.Background(), r.names[e.client])
			if d.Err != nil {
				return d.Err
			} else if !d.Allowed {
				refused(e, rule, &d)
			}
			if !d.Allowed || e.at&0xff == 0 {
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
func (r *Report) try(l core.Limit, most []uint32, above int) (requests, clients, decided int, err error) {
	wants := func(client int) bool {
		if int(most[client]) <= above {
			return false
		}
		decided += len(r.q[client])
		return true
	}
	refused := map[int]bool{}
	err = r.decide([]Route{{Limits: []core.Limit{l}}}, wants, func(e event, _ int, _ *core.Decision) {
		requests++
		refused[e.client] = true
	})
	return requests, len(refused), decided, err
}

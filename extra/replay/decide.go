package replay

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
)

// requests are the times of requests by client: microseconds << 8 | number of the route.
type requests [][]uint64

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

// trial decides the requests of clients under rules, the first of which is for all.
type trial struct {
	rules  []Route
	limits int    // of all rules
	gap    uint64 // microseconds: a client that was quiet for so long is as good as new under every limit
	least  int    // requests that no limit refuses
}

// newTrial returns a trial of rules with windows that are longer by slack.
func newTrial(rules []Route, slack time.Duration) *trial {
	t := &trial{rules: slices.Clone(rules), least: core.MaxLogRequests}
	for i, rule := range t.rules {
		limits := slices.Clone(rule.Limits)
		for k := range limits {
			l := &limits[k]
			l.Window = min(l.Window+slack, core.MaxWindow)
			t.gap, t.least = max(t.gap, 2*uint64(l.Window.Microseconds()+1)), min(t.least, int(l.Requests))
		}
		t.rules[i].Limits, t.limits = limits, t.limits+len(limits)
	}
	return t
}

// decide decides the requests of all clients, of several at once, or, if most is not nil, of those that have more than
// half of a limit in a window. No algorithm refuses another one: what has left a log may still count in the others, but
// not for another window. It calls refused, one call at a time, with each client that was refused, and with its
// refusals by each limit of all rules, in order.
func (t *trial) decide(q requests, most []uint32, refused func(client int, by []int)) (failure error) {
	var workers sync.WaitGroup
	var mu sync.Mutex // guards what refused does, and failure
	n := runtime.GOMAXPROCS(0)
	for first := range n {
		workers.Go(func() {
			for client := first; client < len(q); client += n {
				if most != nil && 2*int(most[client]) <= t.least {
					continue
				}
				by, err := t.client(q[client])
				mu.Lock()
				if failure = cmp.Or(failure, err); slices.Max(by) > 0 {
					refused(client, by)
				}
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	return failure
}

// client decides the requests of a client on a store of its own, and returns how many each limit refuses.
func (t *trial) client(of []uint64) (by []int, err error) {
	var now time.Time
	var ledgers []core.Ledger // by rule, nil where it has no limits
	by = make([]int, t.limits)
	for n := 1; len(of) > 0; of, n = of[n:], 1 {
		for n < len(of) && of[n]>>8-of[n-1]>>8 < t.gap {
			n++
		}
		if n <= t.least { // all are admitted, and forgotten before the next one comes
			continue
		}
		if ledgers == nil {
			bytes := memstore.MinMaxBytes + 100*int64(len(of)) + 4000*int64(t.limits)
			store := memstore.New(memstore.WithMaxBytes(bytes), memstore.WithClock(func() time.Time { return now }))
			for i, rule := range t.rules {
				ledger, err := store.Bind(core.Binding{Rule: strconv.Itoa(i), Limits: rule.Limits})
				if err != nil {
					return by, err
				}
				ledgers = append(ledgers, ledger)
			}
		}
		for i, next := 0, 1; i < n; i, next = next, next+1 {
			now = time.UnixMicro(int64(of[i] >> 8))
			limit, wait, err := t.take(ledgers, int(of[i]&0xff))
			if err != nil {
				return by, err
			} else if limit < 0 {
				continue
			}
			for until := uint64(now.Add(wait).UnixMicro()); next < n && of[next]>>8 < until; {
				next++
			}
			by[limit] += next - i
		}
	}
	return by, nil
}

// take decides a request of a route. It returns which of all limits refuses it, or -1, and how long that limit refuses
// the requests of all routes.
func (t *trial) take(ledgers []core.Ledger, route int) (limit int, wait time.Duration, err error) {
	for rule, ledger := range ledgers {
		limits := t.rules[rule].Limits
		if len(limits) > 0 && (rule == 0 || rule == route) {
			d := ledger.Take(context.Background(), core.Ask{Key: "client", Cost: 1})
			if rule > 0 {
				d.RetryAfter = 0 // what comes meanwhile counts under the first rule
			}
			if d.Err != nil || !d.Allowed {
				return limit + slices.Index(limits, d.Limit), d.RetryAfter, d.Err
			}
		}
		limit += len(limits)
	}
	return -1, 0, nil
}

// try returns how many requests and clients a limit of a window would have refused, and calls refused with each client.
func (r *Report) try(l core.Limit, window int, refused func(client, n int)) (requests, clients int, err error) {
	t := newTrial([]Route{{Limits: []core.Limit{l}}}, r.slack)
	err = t.decide(r.q, r.most[window], func(client int, by []int) {
		requests += by[0]
		clients++
		refused(client, by[0])
	})
	return requests, clients, err
}

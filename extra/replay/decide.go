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

// requests holds the times of requests by client, as microseconds << 8 | index of the route.
type requests [][]uint64

// maxInWindow returns the largest number of requests in any window (t-window, t].
func maxInWindow(of []uint64, window time.Duration) (most int) {
	w, from := uint64(window.Microseconds())<<8, 0
	for i, at := range of {
		for at&^0xff-of[from]&^0xff >= w {
			from++
		}
		most = max(most, i-from+1)
	}
	return most
}

// run decides the requests of clients under rules. The first rule applies to all requests.
type run struct {
	rules    []Route
	limits   int // of all rules
	minLimit int // number of requests in a window that no limit refuses

	// In microseconds: after a gap without requests a client counts for nothing under every limit, and a shift by whole
	// periods does not change decisions.
	gap, period uint64
}

// extendWindow returns a window longer by slack, rounded down to 60 us, so that it is sixty slots of a coarse log.
func extendWindow(window, slack time.Duration) time.Duration {
	if slack > 0 {
		const step = 60 * time.Microsecond
		window = min((window+slack)/step*step, core.MaxWindow)
	}
	return window
}

// newRun returns a simulation of rules with windows longer by slack.
func newRun(rules []Route, slack time.Duration) *run {
	t := &run{rules: slices.Clone(rules), minLimit: core.MaxLogRequests, period: 1}
	for i, rule := range t.rules {
		limits := slices.Clone(rule.Limits)
		for k := range limits {
			l := &limits[k]
			l.Window = extendWindow(l.Window, slack)
			w := uint64(l.Window.Microseconds() + 1)
			t.gap, t.minLimit = max(t.gap, 2*w), min(t.minLimit, int(l.Requests))
			t.repeat(w - 1)
			t.repeat((w + 58) / 60) // the slot of a coarse log
		}
		t.rules[i].Limits, t.limits = limits, t.limits+len(limits)
	}
	return t
}

// repeat makes the period a multiple of n, or latest if that exceeds latest.
func (t *run) repeat(n uint64) {
	a, b := t.period, n
	for b > 0 {
		a, b = b, a%b
	}
	if n /= a; float64(t.period)*float64(n) >= latest {
		t.period = latest
	} else {
		t.period *= n
	}
}

// decide decides the requests of all clients concurrently. If most is not nil, it skips clients with at most half of a
// limit in a window, which no algorithm refuses: units count for at most two windows. It calls refused, one call at a
// time, with each refused client and its refusals by each limit of all rules, in order.
func (t *run) decide(q requests, most []uint32, refused func(client int, by []int)) (failure error) {
	var workers sync.WaitGroup
	var mu sync.Mutex // guards calls of refused, and failure
	longest := slices.MaxFunc(q, func(a, b []uint64) int { return len(a) - len(b) })
	n := runtime.GOMAXPROCS(0)
	for first := range n {
		workers.Go(func() {
			e := &engine{run: t, bytes: memstore.MinMaxBytes + 100*int64(len(longest)) + 4000*int64(t.limits)}
			for client := first; client < len(q); client += n {
				if most != nil && 2*int(most[client]) <= t.minLimit {
					continue
				}
				by, err := e.client(q[client])
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

// engine decides the requests of one client after the other on the same counts: it shifts each client by whole periods,
// until no unit of the previous client counts.
type engine struct {
	*run
	bytes   int64
	now     time.Time
	end     uint64        // end of the decided requests, in microseconds
	ledgers []core.Ledger // by rule; nil until there is a store
}

// client decides the requests of a client, and returns the number of refusals by limit.
func (e *engine) client(of []uint64) (by []int, err error) {
	by = make([]int, e.limits)
	for n := 1; len(of) > 0; of, n = of[n:], 1 {
		for n < len(of) && of[n]>>8-of[n-1]>>8 < e.gap {
			n++
		}
		if n <= e.minLimit { // all are admitted, and none counts for the next
			continue
		}
		later, err := e.move(of[0]>>8, of[n-1]>>8)
		if err != nil {
			return by, err
		}
		for i, next := 0, 1; i < n; i, next = next, next+1 {
			e.now = time.UnixMicro(int64(of[i]>>8 + later))
			limit, wait, err := e.take(int(of[i] & 0xff))
			if err != nil {
				return by, err
			} else if limit < 0 {
				continue
			}
			for until := of[i]>>8 + uint64(wait.Microseconds()); next < n && of[next]>>8 < until; {
				next++
			}
			by[limit] += next - i
		}
	}
	return by, nil
}

// move returns the shift of requests from first to last. It makes a new store if the shifted times exceed latest.
func (e *engine) move(first, last uint64) (later uint64, err error) {
	if free := e.end + e.gap; e.ledgers != nil && free > first {
		later = (free - first + e.period - 1) / e.period * e.period
	}
	if e.ledgers == nil || last+later >= latest {
		later, e.ledgers = 0, nil
		store := memstore.New(memstore.WithMaxBytes(e.bytes), memstore.WithClock(func() time.Time { return e.now }))
		for i, rule := range e.rules {
			ledger, err := store.Bind(core.Binding{Rule: strconv.Itoa(i), Limits: rule.Limits})
			if err != nil {
				return 0, err
			}
			e.ledgers = append(e.ledgers, ledger)
		}
	}
	e.end = last + later
	return later, nil
}

// take decides a request of a route. It returns the index of the limit that refuses it, or -1, and for how long this
// limit refuses the requests of all routes.
func (e *engine) take(route int) (limit int, wait time.Duration, err error) {
	for rule, ledger := range e.ledgers {
		limits := e.rules[rule].Limits
		if len(limits) > 0 && (rule == 0 || rule == route) {
			d := ledger.Take(context.Background(), core.Ask{Key: "client", Cost: 1})
			if rule > 0 {
				d.RetryAfter = 0 // further requests still count under the first rule
			}
			if d.Err != nil || !d.Allowed {
				return limit + slices.Index(limits, d.Limit), d.RetryAfter, d.Err
			}
		}
		limit += len(limits)
	}
	return -1, 0, nil
}

// try returns the number of requests and clients that a limit would have refused, and calls refused with each client.
func (r *Report) try(l core.Limit, window int, refused func(client, n int)) (requests, clients int, err error) {
	t := newRun([]Route{{Limits: []core.Limit{l}}}, r.slack)
	err = t.decide(r.q, r.most[window], func(client int, by []int) {
		requests += by[0]
		clients++
		refused(client, by[0])
	})
	return requests, clients, err
}

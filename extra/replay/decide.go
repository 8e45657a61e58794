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
	limits int // of all rules
	least  int // requests that no limit refuses

	// In microseconds: a client that was quiet for gap is as good as new under every limit, and requests that come
	// whole periods later are decided alike.
	gap, period uint64
}

// longer returns a window that is longer by slack, less up to 59 us: so sixty slots of a coarse log are the window.
func longer(window, slack time.Duration) time.Duration {
	if slack > 0 {
		const sixty = 60 * time.Microsecond
		window = min((window+slack)/sixty*sixty, core.MaxWindow)
	}
	return window
}

// newTrial returns a trial of rules with windows that are longer by slack.
func newTrial(rules []Route, slack time.Duration) *trial {
	t := &trial{rules: slices.Clone(rules), least: core.MaxLogRequests, period: 1}
	for i, rule := range t.rules {
		limits := slices.Clone(rule.Limits)
		for k := range limits {
			l := &limits[k]
			l.Window = longer(l.Window, slack)
			w := uint64(l.Window.Microseconds() + 1)
			t.gap, t.least = max(t.gap, 2*w), min(t.least, int(l.Requests))
			t.repeat(w - 1)
			t.repeat((w + 58) / 60) // the slot of a coarse log
		}
		t.rules[i].Limits, t.limits = limits, t.limits+len(limits)
	}
	return t
}

// repeat makes the period a multiple of n. From latest on it is as good as none.
func (t *trial) repeat(n uint64) {
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

// decide decides the requests of all clients, of several at once, or, if most is not nil, of those that have more than
// half of a limit in a window. No algorithm refuses another one: what has left a log may still count in the others, but
// not for another window. It calls refused, one call at a time, with each client that was refused, and with its
// refusals by each limit of all rules, in order.
func (t *trial) decide(q requests, most []uint32, refused func(client int, by []int)) (failure error) {
	var workers sync.WaitGroup
	var mu sync.Mutex // guards what refused does, and failure
	longest := slices.MaxFunc(q, func(a, b []uint64) int { return len(a) - len(b) })
	n := runtime.GOMAXPROCS(0)
	for first := range n {
		workers.Go(func() {
			e := &engine{trial: t, bytes: memstore.MinMaxBytes + 100*int64(len(longest)) + 4000*int64(t.limits)}
			for client := first; client < len(q); client += n {
				if most != nil && 2*int(most[client]) <= t.least {
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

// engine decides the requests of one client after the other, as if they were of one client: a client comes whole
// periods later, when nothing counts any more of the one before.
type engine struct {
	*trial
	bytes   int64
	now     time.Time
	end     uint64        // of what was decided, in microseconds
	ledgers []core.Ledger // by rule; nil until there is a store
}

// client decides the requests of a client, and returns how many each limit refuses.
func (e *engine) client(of []uint64) (by []int, err error) {
	by = make([]int, e.limits)
	for n := 1; len(of) > 0; of, n = of[n:], 1 {
		for n < len(of) && of[n]>>8-of[n-1]>>8 < e.gap {
			n++
		}
		if n <= e.least { // all are admitted, and forgotten before the next one comes
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

// move returns by how much later requests from first to last come than in the log, on the store or on a new one.
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

// take decides a request of a route. It returns which of all limits refuses it, or -1, and how long that limit refuses
// the requests of all routes.
func (e *engine) take(route int) (limit int, wait time.Duration, err error) {
	for rule, ledger := range e.ledgers {
		limits := e.rules[rule].Limits
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

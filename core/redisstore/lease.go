package redisstore

import (
	"context"
	"fmt"
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"github.com/sashlimit/sash/core"
)

const (
	minLease = time.Millisecond
	maxLease = time.Minute

	// A lease is at most this part of a limit, and lasts at most this part of
	// its window.
	leasePart = 10
)

// WithLease makes a process take units of a busy client's limit ahead, and
// spend them without asking Redis: at most size at a time, for at most
// lifetime. It is for a client that several processes decide about thousands
// of times a second. It gives up exactness on one side only: requests may be
// refused early, never admitted too many. size is from 2 to
// [core.MaxLogRequests], lifetime from 1 ms to a minute;
// WithLease(1000, 100*time.Millisecond) is a start. A lifetime is to be several
// round trips to Redis: of a lease only what is left of it then can be spent.
//
// A lease is at most a tenth of the smallest limit of its rule and lasts at most
// a tenth of the shortest window. So a rule that allows less than 20, or has a
// window under 10 ms, is decided as without WithLease, and so is one that has a
// SlidingCounter among its limits. So are clients that are not busy in this
// process: only one that asks for some four units in a lifetime is leased, and
// then as much as it asks for in half a lifetime, or twice what it has asked for
// since the last lease if that is less. What does not fit the lease takes a new
// one; a cost above the most that a lease may be asks Redis by itself.
//
// With limits of N in W, leases of lifetime D (the longest of all processes),
// and a server whose clock does not step:
//
//   - No window of length W holds more than N, whatever crashes, however late
//     or lost a reply. A lease is counted in the log, all of it at once, at its
//     end: no sooner than any of it is spent. This process reckons the end from
//     before it asked, and a thousandth sooner, since clocks differ in pace.
//   - A request of cost n is refused only if the admissions of the last W + D,
//     plus the units that were taken in that time and that nobody has spent,
//     plus n exceed N. Unspent are the rest of a lease that ends, or that gives
//     way to a new one; what a process held that crashes; and a lease whose
//     taker did not wait for the reply, or whose reply was lost.
//   - A unit that is spent counts for between W and W + D. So where more is asked
//     for than there is, the rate is at least N / (W + D), which is ten
//     elevenths of N / W or more, less what is unspent.
//
// A clock that steps forward by S while a lease lasts, or a failover to a server
// whose clock is ahead by S, makes the lease end up to S after it is counted.
//
// A decision without asking Redis tells in Remaining what was left for all when
// the lease was taken and what is left of the lease; in ResetAfter what it was
// then, less the time since, and at least 1 µs; in At the server's time as
// reckoned from then, never running backwards within a lease and never after its
// end. Refusals are Redis's, or remembered from it: RetryAfter is exact, unspent
// units being counted. Peeks and costs of 0 are answered from a lease that has
// enough.
//
// Reset ends the leases of this process on the client; those of others live on
// for at most their lifetime. While Redis cannot be asked, leases are spent;
// then the policy decides. At most 16,384 clients are leased at a time; others
// ask Redis.
func WithLease(size int64, lifetime time.Duration) Option {
	return func(s *Store) {
		switch {
		case size < 2 || size > core.MaxLogRequests:
			s.err = fmt.Errorf("sash: redisstore.WithLease(%d, %v): a lease is of 2 to %d units, such as 1000; to have none, leave WithLease out", size, lifetime, core.MaxLogRequests)
		case lifetime < minLease || lifetime > maxLease:
			s.err = fmt.Errorf("sash: redisstore.WithLease(%d, %v): a lease lasts from %v to %v, such as 100*time.Millisecond", size, lifetime, minLease, maxLease)
		default:
			s.leases = newLeases(size, lifetime)
		}
	}
}

// leases are what this process has taken ahead, by client and rule.
type leases struct {
	size     int64
	lifetime time.Duration
	now      func() time.Time
	seed     [2]maphash.Seed
	shards   [leaseShards]leaseShard
}

const (
	leaseShards   = 64
	leasesInShard = 256 // some 5 MB in all when full
	leaseSample   = 8   // looked at for one to give up
)

type leaseShard struct {
	mu sync.Mutex
	of map[holder]*lease
}

// holder is who holds a lease: the client by its hash.
type holder struct {
	client [2]uint64
	rule   *leased
}

// lease is what is known of a client: what it asks for, and what has been
// taken ahead for it, if anything. The shard's lock guards it.
type lease struct {
	since time.Time // what is asked for is counted since then
	asked int64     // and admitted

	left     int64         // units to spend
	until    time.Time     // before then
	reply    core.Decision // to the taking
	received time.Time

	retry   time.Time     // until then a refusal stands
	renewal *renewal      // under way
	took    time.Duration // to ask, when it was admitted last
}

// renewal is a lease being taken. Others wait for it, but not for long: its reply
// may be lost. Where the way is so long that asking alone after that would come too
// late, they wait for twice as long as it takes; and no more of them than it is for.
type renewal struct {
	lost    time.Time // from then on its reply is taken for lost
	free    int64     // units that nobody waits for, of those who come over a long way
	done    chan struct{}
	granted bool // once done
}

func newLeases(size int64, lifetime time.Duration) *leases {
	t := &leases{size: size, lifetime: lifetime, now: time.Now, seed: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}
	for i := range t.shards {
		t.shards[i].of = map[holder]*lease{}
	}
	return t
}

// leased decides by a rule that allows leases.
type leased struct {
	asker
	table    *leases
	size     int64
	lifetime time.Duration

	// ahead is take, counting at the end of a lease that begins now.
	ahead func(ctx context.Context, deadline time.Time, client string, cost int64) (core.Decision, error)
}

// asker decides by asking Redis; it is a *counts.
type asker interface {
	find(client string, cost int64, d *core.Decision) (found, asks bool)
	take(ctx context.Context, deadline time.Time, client string, cost int64, charge bool) (core.Decision, error)
	Reset(ctx context.Context, client string) error
}

var (
	_ core.Counts  = (*leased)(nil)
	_ core.Bounded = (*leased)(nil)
)

// bind returns c with leases, or c if its rule does not allow them.
func (t *leases) bind(c *counts) core.Counts {
	size, lifetime := leaseOf(c.rule.Limits, t.size, t.lifetime)
	if size < 2 || lifetime < minLease {
		return c
	}
	ahead := c.aheadBy(lifetime)
	return &leased{asker: c, table: t, size: size, lifetime: lifetime,
		ahead: func(ctx context.Context, deadline time.Time, client string, cost int64) (core.Decision, error) {
			sent := time.Now()
			d, err := ahead.ask(ctx, deadline, client, cost, true)
			if err == nil && d.Allowed {
				c.store.denials.note(c, client, cost, sent, d)
			}
			return d, err
		}}
}

// aheadBy is c where requests are counted so much ahead of time.
func (c *counts) aheadBy(lifetime time.Duration) *counts {
	ahead := *c
	ahead.script = newScript(decideSource(c.rule.Limits, true))
	ahead.args = append(slices.Clip(c.args), micros(lifetime))
	ahead.ahead = lifetime.Microseconds()
	ahead.batches = c.store.batchesFor(ahead.script)
	return &ahead
}

// leaseOf is how much of these limits may be leased, and for how long.
func leaseOf(limits []core.Limit, size int64, lifetime time.Duration) (int64, time.Duration) {
	for _, l := range limits {
		if l.Algorithm != core.SlidingLog {
			return 0, 0
		}
		size = min(size, l.Requests/leasePart)
		lifetime = min(lifetime, l.Window/leasePart)
	}
	return size, lifetime.Truncate(time.Microsecond)
}

// Take implements [core.Counts].
func (l *leased) Take(ctx context.Context, client string, cost int64, charge bool) (core.Decision, error) {
	return l.decide(ctx, 0, client, cost, charge)
}

// TakeWithin implements [core.Bounded].
func (l *leased) TakeWithin(ctx context.Context, timeout time.Duration, client string, cost int64, charge bool) (core.Decision, error) {
	return l.decide(ctx, timeout, client, cost, charge)
}

// decide is TakeWithin, or Take if timeout is 0.
func (l *leased) decide(ctx context.Context, timeout time.Duration, client string, cost int64, charge bool) (core.Decision, error) {
	who, shard := l.holder(client)
	if d, ok := l.spend(shard, who, cost, charge); ok {
		return d, nil
	}
	var d core.Decision
	found, asks := l.find(client, cost, &d)
	if found {
		return d, nil
	}
	began := time.Now()
	var deadline time.Time
	patience := prompt // with renewals
	if timeout > 0 {
		deadline = began.Add(timeout)
		patience = min(patience, timeout/2)
	}
	if end, ok := ctx.Deadline(); ok {
		patience = min(patience, end.Sub(began)/2)
	}
	if cost > l.size || cost == 0 || !charge {
		return l.take(ctx, deadline, client, cost, charge)
	}
	if asks { // a lease would not tell whether the refusal stands
		return l.alone(ctx, deadline, shard, who, client, cost)
	}
	for waited := false; ; waited = true {
		shard.mu.Lock()
		now := l.table.now() // not before: time must not run back within a lease
		e := shard.of[who]
		if e != nil && e.has(now, cost) {
			d = e.spend(l, now, cost, true)
			shard.mu.Unlock()
			return d, nil
		}
		if e == nil {
			e = shard.add(who, now)
		}
		if e == nil || now.Before(e.retry) {
			shard.mu.Unlock()
			return l.alone(ctx, deadline, shard, who, client, cost)
		}
		if r := e.renewal; r != nil {
			if !waited && e.took > patience*3/4 { // give or take
				if r.free < cost {
					shard.mu.Unlock()
					return l.alone(ctx, deadline, shard, who, client, cost)
				}
				r.free -= cost
				patience = 2 * e.took
				if timeout > 0 {
					patience = min(patience, timeout)
				}
			}
			shard.mu.Unlock()
			granted, err := r.wait(ctx, began.Add(patience))
			if err != nil {
				return core.Decision{}, err
			}
			if !granted {
				if found, _ := l.find(client, cost, &d); found {
					return d, nil
				}
				return l.alone(ctx, deadline, shard, who, client, cost)
			}
			patience = min(patience, slow) // others were faster, and may be again
			continue
		}
		want := e.want(l, now, cost)
		if want <= cost {
			shard.mu.Unlock()
			return l.alone(ctx, deadline, shard, who, client, cost)
		}
		r := &renewal{lost: time.Now().Add(max(prompt, 2*e.took)), free: want - cost, done: make(chan struct{})}
		e.renewal = r
		shard.mu.Unlock()
		return l.renew(ctx, deadline, shard, who, e, r, client, cost, want)
	}
}

// spend answers a request from the client's lease, if that has enough.
func (l *leased) spend(shard *leaseShard, who holder, cost int64, charge bool) (core.Decision, bool) {
	shard.mu.Lock()
	defer shard.mu.Unlock()
	now := l.table.now()
	if e := shard.of[who]; e != nil && e.has(now, cost) {
		return e.spend(l, now, cost, charge), true
	}
	return core.Decision{}, false
}

// wait returns when the renewal is done, and whether there is a lease; or false
// when it is taken for lost, or patience has ended.
func (r *renewal) wait(ctx context.Context, patience time.Time) (granted bool, err error) {
	if r.lost.Before(patience) {
		patience = r.lost
	}
	timer := time.NewTimer(time.Until(patience))
	defer timer.Stop()
	select {
	case <-r.done:
		return r.granted, nil
	case <-timer.C:
		return false, nil
	case <-ctx.Done():
		return false, ended(ctx)
	}
}

// Reset implements [core.Counts]. Leases of the client under other rules end
// too: they may be on the same counts.
func (l *leased) Reset(ctx context.Context, client string) error {
	err := l.asker.Reset(ctx, client)
	who, shard := l.holder(client)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	for other := range shard.of {
		if other.client == who.client {
			delete(shard.of, other)
		}
	}
	return err
}

func (l *leased) holder(client string) (holder, *leaseShard) {
	t := l.table
	who := holder{[2]uint64{maphash.String(t.seed[0], client), maphash.String(t.seed[1], client)}, l}
	return who, &t.shards[who.client[0]%leaseShards]
}

// add makes an entry for a client that has none, or returns nil if there is no
// room: then it gives up one that has nothing to spend, if it soon finds it.
func (s *leaseShard) add(who holder, now time.Time) *lease {
	if len(s.of) >= leasesInShard {
		looked := 0
		for other, e := range s.of {
			if !e.has(now, 1) && e.renewal == nil {
				delete(s.of, other)
				break
			}
			if looked++; looked == leaseSample {
				return nil
			}
		}
	}
	e := &lease{since: now}
	s.of[who] = e
	return e
}

// has says whether cost can be spent at now. A process that was suspended finds
// that its monotonic clock stood still and the other did not: by both it must
// be before the lease's end.
func (e *lease) has(now time.Time, cost int64) bool {
	return e.left > 0 && e.left >= cost && now.Before(e.until) && now.Round(0).Before(e.until.Round(0))
}

// spend answers a request that is within the lease, and counts it if charge is
// true.
func (e *lease) spend(l *leased, now time.Time, cost int64, charge bool) core.Decision {
	// By the server's clock it is at least this much later than then; and less
	// than the lifetime, since now is before until.
	later := now.Sub(e.received).Truncate(time.Microsecond)
	d := e.reply
	d.Err = core.ErrRemembered
	d.At = d.At.Add(later - l.lifetime)
	d.Remaining += e.left - cost
	d.ResetAfter = max(d.ResetAfter-later, time.Microsecond)
	if charge {
		e.left -= cost
		e.asked += cost
	}
	return d
}

// want is how much to take ahead, for requests of the given cost.
func (e *lease) want(l *leased, now time.Time, cost int64) int64 {
	want := min(l.size, 2*e.asked)
	elapsed := max(now.Sub(e.since), time.Nanosecond)
	if rate := float64(e.asked) / float64(elapsed); rate*float64(l.lifetime)/2 < float64(want) {
		want = int64(rate * float64(l.lifetime) / 2)
	}
	return want - want%cost // so that requests of one cost leave nothing unspent
}

// alone asks Redis for one request, and learns from the answer what the client
// asks for.
func (l *leased) alone(ctx context.Context, deadline time.Time, shard *leaseShard, who holder, client string, cost int64) (core.Decision, error) {
	sent := l.table.now()
	d, err := l.take(ctx, deadline, client, cost, true)
	now := l.table.now()
	shard.mu.Lock()
	defer shard.mu.Unlock()
	switch e := shard.of[who]; {
	case e == nil:
	case err != nil:
		e.retry = time.Time{} // what it has asked for stays known: of small leases more would fail
	case d.Allowed:
		e.retry, e.took = time.Time{}, now.Sub(sent)
		if now.Sub(e.since) > l.lifetime {
			e.since, e.asked = sent, 0
		}
		e.asked += cost
	default:
		retry := sent.Add(d.RetryAfter)
		if !now.Before(e.retry) {
			// What it is refused tells nothing about what it asks for.
			e.since = e.since.Add(max(0, retry.Sub(now)))
		}
		e.retry = retry
	}
	return d, err
}

// renew takes a lease for a client whose own, if any, does not suffice: as much
// as is wanted, or what there is. If there is none, the request asks alone.
func (l *leased) renew(ctx context.Context, deadline time.Time, shard *leaseShard, who holder, e *lease, r *renewal, client string, cost, want int64) (core.Decision, error) {
	defer func() {
		shard.mu.Lock()
		e.renewal = nil
		shard.mu.Unlock()
		close(r.done)
	}()
	for range 2 {
		if want <= cost {
			break
		}
		sent := l.table.now()
		d, err := l.ahead(ctx, deadline, client, want)
		if err != nil {
			shard.mu.Lock()
			e.retry = time.Time{}
			shard.mu.Unlock()
			return d, err
		}
		if d.Allowed {
			return l.grant(shard, who, e, r, sent, d, cost, want), nil
		}
		want = d.Remaining - d.Remaining%cost
	}
	return l.alone(ctx, deadline, shard, who, client, cost)
}

// grant makes a lease of what has been taken with d, and answers the request
// that it was taken for.
func (l *leased) grant(shard *leaseShard, who holder, e *lease, r *renewal, sent time.Time, d core.Decision, cost, taken int64) core.Decision {
	shard.mu.Lock()
	defer shard.mu.Unlock()
	now := l.table.now()
	if shard.of[who] != e { // Reset has come in between
		e = &lease{}
	}
	*e = lease{
		since:    sent,
		left:     taken,
		until:    sent.Add(l.lifetime - l.lifetime/1000),
		reply:    d,
		received: now,
		renewal:  r,
		took:     now.Sub(sent),
	}
	r.granted = true
	first := e.spend(l, now, cost, true)
	first.Err = nil
	return first
}

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

	// A lease is at most this part of a limit, and lasts at most this part of its window.
	// That is less than the [window.Allowance]: what is further ahead of the server's
	// clock would count from then on, and what is spent later for less than a window.
	leasePart = 10

	// renewalPatience is how long a caller waits for the renewals of other callers at
	// most. A renewal that takes longer than that, and than twice the last one, is
	// taken for lost.
	renewalPatience = core.DefaultTimeout / 2

	// nextPatience is how long a caller waits for another renewal, after other callers
	// have spent the lease of the first one: they may be faster again.
	nextPatience = 20 * time.Millisecond
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
//     reply was lost. A caller that leaves wastes nothing: its lease is there for
//     the next.
//   - A unit that is spent counts for between W and W + D. So where more is asked
//     for than there is, the rate is at least N / (W + D), which is ten
//     elevenths of N / W or more, less what is unspent.
//
// A clock that steps forward by S while a lease lasts, or a failover to a server
// whose clock is ahead by S, makes the lease end up to S after it is counted. One
// that steps back until a lease is more than 75 s or an eighth of the shortest window
// ahead makes what is ahead count from then on: units of a lease that are spent after
// the step count for up to D less than a window. A rule with a shorter window on the
// same counts does the same to a lease that is longer than an eighth of that window.
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
			s.err = fmt.Errorf("sash: redisstore.WithLease(%d, %v): a lease is of 2 to %d units, such as 1000; "+
				"to have none, leave WithLease out", size, lifetime, core.MaxLogRequests)
		case lifetime < minLease || lifetime > maxLease:
			s.err = fmt.Errorf("sash: redisstore.WithLease(%d, %v): a lease lasts from %v to %v, "+
				"such as 100*time.Millisecond", size, lifetime, minLease, maxLease)
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
	leaseSample   = 8   // entries that are looked at for one to give up
)

type leaseShard struct {
	mu       sync.Mutex
	byHolder map[holder]*lease
}

// holder is a client, by its hash, under a rule.
type holder struct {
	client [2]uint64
	rule   *leased
}

// lease is what is known of a client: how much the client asks for, and the units that
// have been taken ahead, if any. The shard's lock guards it.
type lease struct {
	since time.Time // the start of the time in which asked is counted
	asked int64     // units that were admitted since then

	left     int64         // units that are left to spend
	until    time.Time     // the end of the lease
	reply    core.Decision // the reply with which the units were taken
	received time.Time     // when the reply came

	retry   time.Time     // until then Redis refuses the client
	renewal *renewal      // the renewal under way, or nil
	took    time.Duration // how long the last admission by Redis took
}

// leaseRequest is a request that may be answered from a lease.
type leaseRequest struct {
	ctx      context.Context
	began    time.Time
	timeout  time.Duration // 0: none
	deadline time.Time     // began + timeout, or zero
	client   string
	cost     int64
	holder   holder
	shard    *leaseShard
}

// renewal is a request for a lease in flight. It has a context of its own: the caller
// that started it may leave, and the lease is for the others then. Other callers for
// the same client wait for it instead of asking Redis themselves, for at most half of
// their timeout: the reply may be lost. Where a round trip takes longer than that,
// asking after the wait would be too late as well; then they wait for up to two round
// trips, but only as many of them as the lease can serve.
type renewal struct {
	leaseRequest           // of the caller that started it, with the renewal's own context
	lost         time.Time // from then on the reply is taken for lost
	free         int64     // units that are not reserved for callers that wait for long

	abandoned bool          // the caller that started it has left; the shard's lock guards it
	done      chan struct{} // closed when the renewal is over; what follows is final then
	granted   bool
	first     core.Decision // for the caller that started it
	err       error         // for all that wait
}

func newLeases(size int64, lifetime time.Duration) *leases {
	seed := [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}
	t := &leases{size: size, lifetime: lifetime, now: time.Now, seed: seed}
	for i := range t.shards {
		t.shards[i].byHolder = map[holder]*lease{}
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

var _ core.Counts = (*leased)(nil)

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
	ahead.script = c.store.scriptFor(c.rule.Limits, true)
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
func (l *leased) Take(ctx context.Context, ask core.Ask) (core.Decision, error) {
	timeout, client, cost, charge := ask.Timeout, ask.Key, ask.Cost, !ask.Peek
	holder, shard := l.holder(client)
	if d, ok := l.spend(shard, holder, cost, charge); ok {
		return d, nil
	}
	var d core.Decision
	found, asks := l.find(client, cost, &d)
	if found {
		return d, nil
	}
	q := leaseRequest{
		ctx: ctx, began: time.Now(), timeout: timeout, client: client, cost: cost, holder: holder, shard: shard,
	}
	q.deadline = deadlineOf(q.began, timeout)
	switch {
	case cost > l.size || cost == 0 || !charge:
		return l.take(ctx, q.deadline, client, cost, charge)
	case asks: // a lease would not tell whether the refusal still holds
		return l.alone(q)
	}
	return l.fromLease(q)
}

// fromLease answers q from the client's lease, which is renewed if need be; or alone
// where a lease does not pay or takes too long.
func (l *leased) fromLease(q leaseRequest) (core.Decision, error) {
	patience := q.patience()
	for waited := false; ; waited = true {
		q.shard.mu.Lock()
		now := l.table.now() // under the lock: time must not run back within a lease
		e := q.shard.byHolder[q.holder]
		if e != nil && e.has(now, q.cost) {
			d := e.spend(l, now, q.cost, true)
			q.shard.mu.Unlock()
			return d, nil
		}
		if e == nil {
			e = q.shard.add(q.holder, now)
		}
		if e == nil || now.Before(e.retry) {
			q.shard.mu.Unlock()
			return l.alone(q)
		}
		r := e.renewal
		if r == nil {
			r = l.startRenewal(q, e, now)
			q.shard.mu.Unlock()
			if r == nil {
				return l.alone(q)
			}
			return l.awaitOwn(q, r)
		}
		// A quarter is left for a round trip that takes a little longer.
		if !waited && e.took > patience*3/4 {
			if r.free < q.cost {
				q.shard.mu.Unlock()
				return l.alone(q)
			}
			r.free -= q.cost
			if patience = 2 * e.took; q.timeout > 0 {
				patience = min(patience, q.timeout)
			}
		}
		q.shard.mu.Unlock()
		granted, err := r.wait(q.ctx, q.began.Add(patience))
		if err != nil {
			return core.Decision{}, err
		}
		if !granted {
			var d core.Decision
			if found, _ := l.find(q.client, q.cost, &d); found {
				return d, nil
			}
			return l.alone(q)
		}
		patience = min(patience, nextPatience)
	}
}

// patience returns how long q waits for renewals by other callers.
func (q *leaseRequest) patience() time.Duration {
	patience := renewalPatience
	if q.timeout > 0 {
		patience = min(patience, q.timeout/2)
	}
	if end, ok := q.ctx.Deadline(); ok {
		patience = min(patience, end.Sub(q.began)/2)
	}
	return patience
}

// spend answers a request from the client's lease, if that has enough.
func (l *leased) spend(shard *leaseShard, holder holder, cost int64, charge bool) (core.Decision, bool) {
	shard.mu.Lock()
	defer shard.mu.Unlock()
	now := l.table.now()
	if e := shard.byHolder[holder]; e != nil && e.has(now, cost) {
		return e.spend(l, now, cost, charge), true
	}
	return core.Decision{}, false
}

// wait returns when the renewal is over, and whether there is a lease. It returns false
// when the reply is taken for lost or patience has ended.
func (r *renewal) wait(ctx context.Context, patience time.Time) (granted bool, err error) {
	if r.lost.Before(patience) {
		patience = r.lost
	}
	timer := time.NewTimer(time.Until(patience))
	defer timer.Stop()
	select {
	case <-r.done:
		return r.granted, r.err
	case <-timer.C:
		return false, nil
	case <-ctx.Done():
		return false, ended(ctx)
	}
}

// Reset implements [core.Counts]. Leases of the client under other rules end too: they
// may be on the same counts. If ctx has ended already, nothing is done.
func (l *leased) Reset(ctx context.Context, client string) error {
	if ctx.Err() != nil {
		return ended(ctx)
	}
	err := l.asker.Reset(ctx, client)
	who, shard := l.holder(client)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	for other := range shard.byHolder {
		if other.client == who.client {
			delete(shard.byHolder, other)
		}
	}
	return err
}

func (l *leased) holder(client string) (holder, *leaseShard) {
	t := l.table
	who := holder{[2]uint64{maphash.String(t.seed[0], client), maphash.String(t.seed[1], client)}, l}
	return who, &t.shards[who.client[0]%leaseShards]
}

// add makes an entry for a client that has none. In a full shard it gives up the entry of
// a client that has nothing to spend, or returns nil if it does not find one soon. s.mu
// must be held.
func (s *leaseShard) add(who holder, now time.Time) *lease {
	if len(s.byHolder) >= leasesInShard {
		looked := 0
		for other, e := range s.byHolder {
			if !e.has(now, 1) && e.renewal == nil {
				delete(s.byHolder, other)
				break
			}
			if looked++; looked == leaseSample {
				return nil
			}
		}
	}
	e := &lease{since: now}
	s.byHolder[who] = e
	return e
}

// has reports whether cost can be spent at now. While a process is suspended, its
// monotonic clock may stand still and its wall clock goes on: now must be before the
// lease's end by both.
func (e *lease) has(now time.Time, cost int64) bool {
	return e.left > 0 && e.left >= cost && now.Before(e.until) && now.Round(0).Before(e.until.Round(0))
}

// spend answers a request that is within the lease, and counts it if charge is
// true.
func (e *lease) spend(l *leased, now time.Time, cost int64, charge bool) core.Decision {
	// The server's clock has advanced by at least this much since the reply, and by
	// less than the lifetime, since now is before until.
	later := now.Sub(e.received).Truncate(time.Microsecond)
	d := e.reply
	d.Source = core.Leased
	d.At = d.At.Add(later - l.lifetime)
	d.Remaining += e.left - cost
	d.ResetAfter = max(d.ResetAfter-later, time.Microsecond)
	if charge {
		e.left -= cost
		e.asked += cost
	}
	return d
}

// want returns how much to take ahead, for requests of the given cost.
func (e *lease) want(l *leased, now time.Time, cost int64) int64 {
	want := min(l.size, 2*e.asked)
	elapsed := max(now.Sub(e.since), time.Nanosecond)
	if rate := float64(e.asked) / float64(elapsed); rate*float64(l.lifetime)/2 < float64(want) {
		want = int64(rate * float64(l.lifetime) / 2)
	}
	return want - want%cost // so that requests of one cost leave nothing unspent
}

// alone asks Redis for one request, and learns from the answer what the client asks for.
func (l *leased) alone(q leaseRequest) (core.Decision, error) {
	sent := l.table.now()
	d, err := l.take(q.ctx, q.deadline, q.client, q.cost, true)
	now := l.table.now()
	q.shard.mu.Lock()
	defer q.shard.mu.Unlock()
	switch e := q.shard.byHolder[q.holder]; {
	case e == nil:
	case err != nil:
		e.retry = time.Time{} // asked stays as it is: with smaller leases more requests would fail
	case d.Allowed:
		e.retry, e.took = time.Time{}, now.Sub(sent)
		if now.Sub(e.since) > l.lifetime {
			e.since, e.asked = sent, 0
		}
		e.asked += q.cost
	default:
		retry := sent.Add(d.RetryAfter)
		if !now.Before(e.retry) {
			// A time in which the client is refused tells nothing about its rate.
			e.since = e.since.Add(max(0, retry.Sub(now)))
		}
		e.retry = retry
	}
	return d, err
}

// startRenewal starts to take a lease for a client whose own, if any, does not suffice
// for q. It returns nil if the client asks for too little. The shard's lock must be held.
func (l *leased) startRenewal(q leaseRequest, e *lease, now time.Time) *renewal {
	want := e.want(l, now, q.cost)
	if want <= q.cost {
		return nil
	}
	r := &renewal{
		leaseRequest: q,
		lost:         time.Now().Add(max(renewalPatience, 2*e.took)),
		free:         want - q.cost,
		done:         make(chan struct{}),
	}
	r.ctx, r.deadline = context.WithoutCancel(q.ctx), q.renewalDeadline()
	e.renewal = r
	go l.renew(r, e, want)
	return r
}

// renewalDeadline returns until when a renewal that q starts waits for its reply: as long
// as q may take, and at least as long as a server may be expected to take. A caller in a
// hurry would else waste the lease. The zero time is no deadline; then the client's own
// timeouts end the wait.
func (q *leaseRequest) renewalDeadline() time.Time {
	deadline := q.deadline
	if deadline.IsZero() {
		end, ok := q.ctx.Deadline()
		if !ok {
			return time.Time{}
		}
		deadline = end
	}
	return later(deadline, q.began.Add(core.DefaultTimeout))
}

// taking is an attempt to take units ahead; the zero value is none.
type taking struct {
	sent  time.Time
	units int64
	reply core.Decision
	err   error
}

// renew takes a lease of as much as is wanted, or else of as much as there is. If there
// is nothing to lease, the request that started r is asked alone.
func (l *leased) renew(r *renewal, e *lease, want int64) {
	var t taking
	for range 2 {
		if want <= r.cost {
			break
		}
		t = taking{sent: l.table.now(), units: want}
		t.reply, t.err = l.ahead(r.ctx, r.deadline, r.client, want)
		if t.err != nil || t.reply.Allowed {
			break
		}
		want = t.reply.Remaining - t.reply.Remaining%r.cost
	}
	if t.err == nil && !t.reply.Allowed && !r.left() {
		// Callers that wait are answered by what this one is told, if that is a refusal.
		r.first, r.err = l.alone(r.leaseRequest)
	}
	l.finish(r, e, t)
}

// left reports whether the caller that started r has left.
func (r *renewal) left() bool {
	r.shard.mu.Lock()
	defer r.shard.mu.Unlock()
	return r.abandoned
}

// finish makes a lease of what has been taken, and tells the callers that wait for r.
func (l *leased) finish(r *renewal, e *lease, t taking) {
	r.shard.mu.Lock()
	defer r.shard.mu.Unlock()
	e.renewal = nil
	switch {
	case t.err != nil:
		e.retry = time.Time{}
		r.err = t.err
	case t.reply.Allowed:
		l.grant(r, e, t)
	}
	close(r.done)
}

// grant makes a lease of what has been taken, and answers the caller that started r
// unless it has left. The shard's lock must be held.
func (l *leased) grant(r *renewal, e *lease, t taking) {
	now := l.table.now()
	if r.shard.byHolder[r.holder] != e {
		e = &lease{} // a reset has come in between: the lease is for that one caller
	}
	*e = lease{
		since:    t.sent,
		left:     t.units,
		until:    t.sent.Add(l.lifetime - l.lifetime/1000),
		reply:    t.reply,
		received: now,
		took:     now.Sub(t.sent),
	}
	r.granted = true
	if !r.abandoned {
		r.first = e.spend(l, now, r.cost, true)
		r.first.Source = core.Counted
	}
}

// awaitOwn waits for the renewal that q has started, and answers q.
func (l *leased) awaitOwn(q leaseRequest, r *renewal) (core.Decision, error) {
	var late <-chan time.Time
	if !q.deadline.IsZero() {
		timer := time.NewTimer(time.Until(q.deadline))
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-r.done:
	case <-late:
		if r.abandon() {
			return core.Decision{}, errLate
		}
	case <-q.ctx.Done():
		if r.abandon() {
			return core.Decision{}, ended(q.ctx)
		}
	}
	return r.first, r.err
}

// abandon notes that the caller that started r has left. It returns false if r is over:
// then the caller has been answered.
func (r *renewal) abandon() bool {
	r.shard.mu.Lock()
	defer r.shard.mu.Unlock()
	select {
	case <-r.done:
		return false
	default:
		r.abandoned = true
		return true
	}
}

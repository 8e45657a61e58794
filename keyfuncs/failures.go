package keyfuncs

import (
	"context"
	"errors"
	"net/http"
	"sync"

	"github.com/sashlimit/sash/core"
)

// LimitFailures limits how many unknown keys [APIKey] asks verify about, per
// address, so that keys cannot be guessed:
//
//	failures := core.Must(limiter.Rule("apikey-failures", core.PerMinute(10).Named("apikey-failures")))
//	keyfuncs.APIKey("X-API-Key", verify, keyfuncs.LimitFailures(failures, keyfuncs.RemoteIP))
//
// The limiter needs a name or rule of its own, so that nothing else is charged
// to its counts, and a limit with a name that clients can tell from others.
// address names where a request comes from; give the function that names
// clients without a key. It must be as hard to forge as [RemoteIP] or [IP].
//
// Before verify is asked, the limiter is asked whether the address has failures
// left, which charges nothing. A key that is not known is then charged 1. A known
// key charges nothing, nor does an error of verify other than [ErrNoKey], nor a
// panic. A request without a key is not affected. A request with two unknown
// keys, in the header and as a bearer token, is charged 2, and so is one that
// passes two guards with this function.
//
// An address whose failures are spent is refused for every key, known or not,
// until the limiter admits failures again: else the answer would tell a right
// guess from a wrong one. All clients behind that address are refused with it.
// The error is a [*RefusedError], and package nethttp answers with 429 and
// Retry-After. Where the store cannot be asked, the limiter's policy decides:
// core.FailOpen asks verify, core.FailClosed refuses with 503.
//
// The limit is exact within one process: verifications under way count as
// failures until they end, and a request that finds the rest of the limit taken
// by them waits for one to end, or for the end of its context. An address can
// thus have as many verifications under way as it has failures left. Functions
// that share a limiter must be given the same option, made once. Several
// processes that share a store may together ask verify about more, by what each
// of them has under way.
//
// Each request with a key costs a look at the limiter's store. A memstore of the
// process's own spares a round trip to Redis, and counts per process.
//
// The error matches [ErrBadRequest] if address gives no name: without one, the
// guesses would be unlimited. LimitFailures panics if an argument is nil
// or the limiter is the zero Limiter.
func LimitFailures(limiter *core.Limiter, address Func) APIKeyOption {
	if limiter == nil {
		panic("keyfuncs: LimitFailures: the limiter is nil; give one made by core.New or Limiter.Rule")
	}
	if len(limiter.Limits()) == 0 {
		panic("keyfuncs: LimitFailures: the zero Limiter has no limits; give one made by core.New or Limiter.Rule")
	}
	if address == nil {
		panic("keyfuncs: LimitFailures: the address function is nil; give one such as keyfuncs.RemoteIP")
	}
	f := &failures{limiter: limiter, address: address, byAddress: map[string]*verifications{}}
	return func(k *apiKeys) {
		if k.failures != nil {
			panic("keyfuncs: APIKey: LimitFailures is given twice; give it once, with a limiter of all limits")
		}
		k.failures = f
	}
}

// failures counts failed verifications by address in a limiter. A limiter cannot
// give back a charge, so failures itself counts the charges that verifications under
// way may still make, and adds them when it asks the limiter.
type failures struct {
	limiter *core.Limiter
	address Func

	mu        sync.Mutex                // guards byAddress and the entries
	byAddress map[string]*verifications // the addresses with a request between enter and leave
}

// verifications is what one address has under way. The mutex of failures guards the
// fields, and the methods of attempt take it. The channels are nil until a request
// has to wait.
type verifications struct {
	requests int // the attempts that refer to this entry
	underway int // the failures that are reserved

	turn  chan struct{} // holds an element while a request waits for ended
	ended chan struct{} // holds an element if a reservation ended since the waiting request looked
}

// addressOf returns the name of the request's address.
func (f *failures) addressOf(r *http.Request) (string, error) {
	address, err := named(f.address, r)
	if errors.Is(err, ErrNoKey) {
		return "", badRequestError("failed API keys are counted by address, and the request has none: " + err.Error())
	}
	return address, err
}

// attempt is one verification, from enter to leave.
type attempt struct {
	failures *failures
	address  string
	entry    *verifications // of the address
}

// enter begins an attempt with the entry of the address, which it adds if there is none.
// The caller must call leave.
func (f *failures) enter(address string) attempt {
	f.mu.Lock()
	defer f.mu.Unlock()
	entry := f.byAddress[address]
	if entry == nil {
		entry = new(verifications)
		f.byAddress[address] = entry
	}
	entry.requests++
	return attempt{f, address, entry}
}

// leave takes the attempt out of the entry of the address, and removes the entry
// with its last attempt. It wakes the request that waits, if any, because a failure
// may have become free.
func (a *attempt) leave() {
	f := a.failures
	f.mu.Lock()
	defer f.mu.Unlock()
	a.entry.wake()
	if a.entry.requests--; a.entry.requests == 0 {
		delete(f.byAddress, a.address)
	}
}

// charge counts the attempt as failed, even if the client has left: a client
// could otherwise guess without being charged by leaving early.
func (a *attempt) charge(ctx context.Context) {
	a.failures.limiter.Decide(context.WithoutCancel(ctx), core.Request{Key: a.address, Cost: 1})
}

// reserve reserves one of the failures that the address has left. If it returns no
// error, the caller gives the reservation back, after charge if that is called. The
// error is a RefusedError if the limiter refuses, or that of ctx. One request of each
// address at a time waits for reservations to end; the others wait for their turn.
func (a *attempt) reserve(ctx context.Context) error {
	ok, err := a.tryReserve(ctx)
	if ok || err != nil {
		return err
	}
	turn, ended := a.waitChannels()
	select {
	case turn <- struct{}{}:
		defer func() { <-turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	for {
		if ok, err := a.tryReserve(ctx); ok || err != nil {
			return err
		}
		select {
		case <-ended:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// tryReserve reserves a failure if the address has one left, and returns a
// RefusedError if the limiter would refuse even one. If it returns false without an error, other
// requests have reserved all failures that are left.
func (a *attempt) tryReserve(ctx context.Context) (ok bool, err error) {
	underway := a.addReservations(1)
	defer func() {
		if !ok {
			a.addReservations(-1)
		}
	}()
	// A failure is charged before its reservation ends. So each failure is in the count
	// of the limiter, or in underway, or belongs to a later request, which counts the
	// reservation of this one.
	d := a.peek(ctx, underway)
	if !d.Allowed && underway > 1 {
		if d = a.peek(ctx, 1); d.Allowed {
			return false, nil
		}
	}
	if !d.Allowed {
		return false, &RefusedError{d}
	}
	return true, nil
}

// peek asks the limiter whether the address has n failures left, and charges
// nothing.
func (a *attempt) peek(ctx context.Context, n int) core.Decision {
	return a.failures.limiter.Decide(ctx, core.Request{Key: a.address, Cost: int64(n), Peek: true})
}

// addReservations reserves n more failures, or gives some back if n is negative. It
// returns the number of reserved failures.
func (a *attempt) addReservations(n int) int {
	a.failures.mu.Lock()
	defer a.failures.mu.Unlock()
	a.entry.underway += n
	return a.entry.underway
}

// waitChannels returns the channels to wait with. It wakes the request that waits
// already, if any: the short reservation of this attempt may have been in its way.
func (a *attempt) waitChannels() (turn, ended chan struct{}) {
	a.failures.mu.Lock()
	defer a.failures.mu.Unlock()
	if a.entry.turn == nil {
		a.entry.turn, a.entry.ended = make(chan struct{}, 1), make(chan struct{}, 1)
	}
	a.entry.wake()
	return a.entry.turn, a.entry.ended
}

// wake makes the request that waits try again. The mutex of failures must be held.
func (v *verifications) wake() {
	select {
	case v.ended <- struct{}{}:
	default: // the channel is nil or full: no request waits, or it is woken already
	}
}

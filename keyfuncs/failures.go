package keyfuncs

import (
	"context"
	"errors"
	"net/http"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/internal/inflight"
)

// LimitFailures limits how many unknown keys [APIKey] asks verify about, per address, so that keys cannot be guessed:
//
//	failures := core.Must(limiter.Rule("apikey-failures", core.PerMinute(10).Named("apikey-failures")))
//	keyfuncs.APIKey("X-API-Key", verify, keyfuncs.LimitFailures(failures, keyfuncs.RemoteIP))
//
// The limiter needs a name or rule of its own, and a limit with a name that clients can tell from others. address
// names where a request comes from, and must be as hard to forge as [RemoteIP] or [IP].
//
// A unit of the address is reserved for each key before verify is asked, and given back unless the key is unknown:
// for a known key, for an error of verify other than [ErrNoKey], and for a panic. So the limit holds for guesses in
// parallel and in several processes.
//
// An address whose failures are spent is refused for every key, known or not: else the answer would tell a right
// guess from a wrong one. The error is a [*RefusedError], which package nethttp answers with 429. Where verifications
// under way in this process have the rest of the limit, a request waits for its turn until its context ends, so give
// verify a timeout. Where the store fails, the limiter's policy decides: core.FailOpen asks verify,
// core.FailClosed refuses with 503.
//
// Each key costs two round trips of the store: a memstore spares them, and counts for its process alone. The observer
// hears of refusals, and of each other key as a Peek. The error matches [ErrBadRequest] if address gives no name.
func LimitFailures(limiter *core.Limiter, address Func) APIKeyOption {
	if limiter == nil || len(limiter.Limits()) == 0 {
		panic("sash: LimitFailures: the limiter is nil, the zero Limiter or one without limits; " +
			"give one made by core.New or Limiter.Rule")
	}
	if address == nil {
		panic("sash: LimitFailures: the address function is nil; give one such as keyfuncs.RemoteIP")
	}
	f := &failures{limiter: limiter, address: address}
	return func(k *apiKeys) { k.failures = f }
}

// failures counts failed verifications by address.
type failures struct {
	limiter  *core.Limiter
	address  Func
	inflight inflight.Set
}

// addressOf returns the name of the request's address.
func (f *failures) addressOf(r *http.Request) (string, error) {
	address, err := named(f.address, r)
	if errors.Is(err, ErrNoKey) {
		return "", badRequestError("failed API keys are counted by address, and the request has none: " + err.Error())
	}
	return address, err
}

// identify is [apiKeys.ask] with a unit of the request's address, which stays counted if the key is unknown.
func (f *failures) identify(ctx context.Context, address string, ask func() (string, error)) (id string, err error) {
	r := f.inflight.Reserve(ctx, f.limiter, core.Request{Key: address, Cost: 1, Unreported: true})
	if !r.Decision.Allowed {
		return "", &RefusedError{r.Decision}
	}
	unknown := false
	defer func() { // also if verify panics
		if !unknown {
			_, _ = r.Return(ctx, 1) // also if the client has left; if it fails, the unit stays counted
		}
		f.inflight.Done(address, !unknown)
	}()
	id, err = ask()
	unknown = id == "" && err == nil
	return id, err
}

package keyfuncs

import (
	"errors"
	"net/http"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/internal/inflight"
)

// LimitFailures limits the unknown keys of an address that [APIKey] verifies, so that keys cannot be guessed:
//
//	failures := core.Must(limiter.Rule("apikey-failures", core.PerMinute(10).Named("apikey-failures")))
//	keyfuncs.APIKey("X-API-Key", verify, keyfuncs.LimitFailures(failures, keyfuncs.RemoteIP))
//
// The limiter needs a name or rule of its own, and a limit with a name that clients can tell from others. address is a
// key function for the address of a request, and must be as hard to forge as [RemoteIP] or [IP].
//
// Each key reserves a unit of its address before verify is called. The unit is given back unless the key is unknown:
// for a known key, for an error of verify other than [ErrNoKey], and after a panic. So the limit holds for parallel
// guesses, and for several processes.
//
// An address without remaining units is refused for every key, known or not: another answer would confirm a right
// guess. The error is a [*RefusedError], which package nethttp answers with 429. If verifications in flight in this
// process hold the rest of the limit, a request waits for them until its context ends, so give verify a timeout. While
// the store fails, the limiter's policy decides: core.FailOpen calls verify, core.FailClosed refuses with 503.
//
// Each key costs two round trips to the store; a memstore has none, and counts for its process alone. The observer gets
// refusals, and each other key as a Peek. The error matches [ErrBadRequest] if address returns no key.
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

// limit calls verify with a reserved unit of the request's address, which stays counted if the key is unknown.
func (f *failures) limit(r *http.Request, verify func() (string, error)) (id string, err error) {
	address, err := keyOf(f.address, r)
	switch {
	case errors.Is(err, ErrNoKey):
		return "", badRequestError("failed API keys are counted by address, and the request has none: " + err.Error())
	case err != nil:
		return "", err
	}
	ctx := r.Context()
	reserved := f.inflight.Reserve(ctx, f.limiter, core.Request{Key: address, Cost: 1, Silent: true})
	if !reserved.Decision.Allowed {
		return "", &RefusedError{reserved.Decision}
	}
	unknown := false
	defer func() { // also if verify panics
		if !unknown {
			_, _ = reserved.Return(ctx, 1) // also if the client has left; if it fails, the unit stays counted
		}
		f.inflight.Done(address, !unknown)
	}()
	id, err = verify()
	unknown = id == "" && err == nil
	return id, err
}

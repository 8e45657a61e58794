package httpclient

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/extra/internal/clientlimit"
	"github.com/sashlimit/sash/internal/errs"
)

// NewTransport returns an [http.RoundTripper] for requests that a program sends: each is
// decided by limiter under the name that key returns, such as [ByHost], and then sent by
// base, such as [http.DefaultTransport].
//
// A request waits until it is admitted, as [core.Limiter.Wait] does, with its order, its
// deadline, which Client.Timeout sets too, and its pace while the store fails.
// With [NoWait] a request fails at once where it would have to wait.
//
// After a 429, further requests of the same key wait for as long as the server asks by Retry-After, RateLimit,
// RateLimit-Reset, or a field with Limit and then Reset in its name, such as X-RateLimit-Reset; after a 503 by
// Retry-After; after a 403 by Retry-After or the reset of a quota of which 0 remain. The value is a number of seconds,
// also with a fraction, or of milliseconds where the name says so, a duration such as 6m0s, a date, or a Unix time.
// [MaxPause] bounds the wait. The pause applies to this process only. A request that was admitted when the pause
// started is decided and counted again after it. No request is sent twice: the caller gets the response and may send
// another. At most 1,024 keys are paused; beyond that, the pause that ends first is dropped.
//
// A request that is not sent fails with an [*Error], which an http.Client wraps: use
// [errors.As] and [errors.Is]. The request is not changed, and its body is always closed.
// http.Client.CloseIdleConnections reaches base. The RoundTripper is safe for concurrent use
// if key and base are.
func NewTransport(
	limiter *core.Limiter, key func(*http.Request) (string, error), base http.RoundTripper, opts ...Option,
) (http.RoundTripper, error) {
	if limiter == nil || len(limiter.Limits()) == 0 {
		return nil, errors.New("sash: the limiter is nil, the zero Limiter or one without limits: " +
			"give one made by core.New or Limiter.Rule")
	}
	t := &transport{limiter: limiter, key: key, base: base}
	t.gate.MaxPause = clientlimit.DefaultPause
	if err := t.apply(opts); err != nil {
		return nil, &errs.Error{Prefix: limiter.String() + ": ", Err: err}
	}
	return t, nil
}

// transport is the RoundTripper that NewTransport returns.
type transport struct {
	limiter *core.Limiter
	key     func(*http.Request) (string, error)
	base    http.RoundTripper
	gate    clientlimit.Gate
}

// Option is an option of [NewTransport].
type Option func(*transport) error

// NoWait makes a request fail where it would have to wait. While the store fails,
// nothing waits, so that [core.FailOpen], the default, sends all requests at once, without a
// pace. Where a server bans for that, give the limiter [core.Fallback] or [core.FailClosed].
func NoWait() Option {
	return func(t *transport) error { t.gate.NoWait = true; return nil }
}

// MaxPause sets the longest pause that a server can request; the default is an hour. A longer pause is cut to d. With 0
// all pauses are ignored; otherwise d is from 1 s to [core.MaxWindow].
func MaxPause(d time.Duration) Option {
	return func(t *transport) error {
		if d != 0 && (d < time.Second || d > core.MaxWindow) {
			return fmt.Errorf("sash: MaxPause(%v): give 0 or from 1s to %v, such as 10*time.Minute", d, core.MaxWindow)
		}
		t.gate.MaxPause = d
		return nil
	}
}

// apply checks the arguments and applies the options.
func (t *transport) apply(opts []Option) error {
	if t.key == nil {
		return errors.New("sash: the key function of NewTransport is nil: give one, such as httpclient.ByHost")
	}
	if errs.IsNil(t.base) {
		return fmt.Errorf("sash: the base of NewTransport is %s: give http.DefaultTransport, or another RoundTripper",
			errs.NilName(t.base))
	}
	for _, o := range opts {
		if o == nil {
			return errors.New("sash: an option is nil: leave it out")
		}
		if err := o(t); err != nil {
			return err
		}
	}
	return nil
}

// CloseIdleConnections is called by [http.Client.CloseIdleConnections].
func (t *transport) CloseIdleConnections() {
	if base, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}

// RoundTrip implements [http.RoundTripper].
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	sent := false
	defer func() {
		if !sent && r.Body != nil {
			_ = r.Body.Close()
		}
	}()
	key, err := t.key(r)
	if err != nil {
		err = &errs.Error{Prefix: "the key function failed: ", Err: err}
		return nil, &Error{Decision: core.Decision{Err: err}, err: err}
	}
	if d, err := t.gate.Admit(r.Context(), t.limiter, key, 1); err != nil {
		return nil, &Error{Decision: d, err: err}
	}
	sent = true
	response, err := t.base.RoundTrip(r)
	if err == nil {
		t.gate.Pause(key, pause(response.StatusCode, response.Header, time.Now()))
	}
	return response, err
}

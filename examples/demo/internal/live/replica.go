package live

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/headers"
	"github.com/sashlimit/sash/nethttp"
)

// trial is one request and its verdicts. It travels in the request's context.
type trial struct {
	key             string
	client, replica int
	at              time.Time // when the request came

	log, coarse, counter core.Decision
	fixed                bool
}

type trialKey struct{}

func trialOf(ctx context.Context) *trial {
	t, _ := ctx.Value(trialKey{}).(*trial)
	return t
}

// replica stands for one process of a service: limiters of its own on the store that all replicas share.
type replica struct {
	handler         http.Handler // the middleware with a SlidingLog
	coarse, counter *core.Limiter
}

// newReplica returns a replica that counts in store. Its main limiter reports its decision to the trial in the
// request's context.
func newReplica(store core.Store, s Settings, log core.Observer) (*replica, error) {
	config := core.Config{
		Name:         "live",
		Store:        store,
		Limits:       []core.Limit{core.Per(int64(s.Limit), s.window())},
		OnStoreError: core.FailClosed, // what is not counted cannot be judged
		Timeout:      time.Second,     // a busy machine is no outage
		Observer: core.Observers(log, core.ObserverFunc(func(ctx context.Context, e core.Event) {
			if t := trialOf(ctx); t != nil {
				t.log = e.Decision
			}
		})),
	}
	limiter, err := core.New(config)
	if err != nil {
		return nil, err
	}
	guard, err := nethttp.New(limiter, trialName, nethttp.WithHeaders(headers.Classic, headers.IETF))
	if err != nil {
		return nil, err
	}
	config.Observer = log
	x := &replica{handler: guard.Handler(http.HandlerFunc(hello))}
	if x.coarse, err = core.New(using(config, core.CoarseLog)); err != nil {
		return nil, err
	}
	x.counter, err = core.New(using(config, core.SlidingCounter))
	return x, err
}

// using returns the config with its limit counted by another algorithm.
func using(c core.Config, a core.Algorithm) core.Config {
	c.Limits = []core.Limit{c.Limits[0].Using(a)}
	return c
}

func trialName(r *http.Request) (string, error) { return trialOf(r.Context()).key, nil }

func hello(w http.ResponseWriter, r *http.Request) {
	client := strconv.Itoa(trialOf(r.Context()).client)
	writeJSON(w, http.StatusOK, map[string]string{"message": "Hello, client " + client})
}

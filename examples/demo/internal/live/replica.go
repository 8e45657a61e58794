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

// trial is one request and what the judges decided about it. It travels in the request's context.
type trial struct {
	key             string
	client, replica int
	at              time.Time // when the request came
	decisions       map[string]core.Decision
}

type trialKey struct{}

func trialOf(ctx context.Context) *trial { return ctx.Value(trialKey{}).(*trial) }

// replica stands for one process of a service: limiters of its own on the store that all replicas share.
type replica struct {
	handler http.Handler    // the middleware with a SlidingLog
	others  []*core.Limiter // of the other algorithms
}

// newReplica returns a replica that counts in store. Its limiters report to the trial in a request's context.
func newReplica(store core.Store, s Settings, log core.Observer) (*replica, error) {
	x := &replica{}
	for _, a := range core.Algorithms() {
		limiter, err := core.New(core.Config{
			Name:         "live",
			Store:        store,
			Limits:       []core.Limit{core.Per(int64(s.Limit), s.window()).Using(a)},
			OnStoreError: core.FailClosed, // what is not counted cannot be judged
			Timeout:      time.Second,     // a busy machine is no outage
			Observer: core.Observers(log, core.ObserverFunc(func(ctx context.Context, e core.Event) {
				trialOf(ctx).decisions[a.String()] = e.Decision
			})),
		})
		if err != nil {
			return nil, err
		}
		if a != core.SlidingLog {
			x.others = append(x.others, limiter)
			continue
		}
		guard, err := nethttp.New(limiter, trialName, nethttp.WithHeaders(headers.XRateLimit, headers.IETF))
		if err != nil {
			return nil, err
		}
		x.handler = guard.Handler(http.HandlerFunc(hello))
	}
	return x, nil
}

func trialName(r *http.Request) (string, error) { return trialOf(r.Context()).key, nil }

func hello(w http.ResponseWriter, r *http.Request) {
	client := strconv.Itoa(trialOf(r.Context()).client)
	writeJSON(w, http.StatusOK, map[string]string{"message": "Hello, client " + client})
}

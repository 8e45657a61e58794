package live

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/headers"
	"github.com/sashlimit/sash/nethttp"
)

// maxAnswers is the number of a policy's answers that are remembered.
const maxAnswers = 30

// policies are three limiters of a session that differ in their policy for store errors. They count in the store that
// can be taken away.
type policies struct {
	stores   *Stores
	handlers map[string]http.Handler

	mu      sync.Mutex
	answers map[string]*PolicyAnswers // each with at least its last maxAnswers
}

// Answer is the answer to a client under one policy.
type Answer struct {
	Status int    `json:"status"`
	Source string `json:"source"` // what decided, as core.Source says it
}

// Outage is the state of the store that can be taken away, and what the policies said.
type Outage struct {
	Away     bool                     `json:"away"`    // by the page's switch
	Answers  bool                     `json:"answers"` // the store itself, whether or not it is away
	Changed  float64                  `json:"changed"` // when Away did; 0 if never, or if the store was silent since
	Policies map[string]PolicyAnswers `json:"policies"`
}

// PolicyAnswers are the last answers of one policy.
type PolicyAnswers struct {
	Answers   []Answer `json:"answers"`
	Uncounted bool     `json:"uncounted"` // the newest was decided without the store
	Resumed   float64  `json:"resumed"`   // when the store first counted again; 0 if it never stopped
}

// newPolicies returns the three limiters of a session. Its id is the key of their client.
func newPolicies(id string, s Settings, stores *Stores, log core.Observer) (*policies, error) {
	p := &policies{stores: stores, handlers: map[string]http.Handler{}, answers: map[string]*PolicyAnswers{}}
	for name, policy := range map[string]core.Policy{
		"open": core.FailOpen, "closed": core.FailClosed, "fallback": stores.fallback,
	} {
		p.answers[name] = &PolicyAnswers{}
		limiter, err := core.New(core.Config{
			Name:         "live-" + name,
			Store:        stores.switched,
			Limits:       []core.Limit{core.Per(int64(s.Limit), s.window())},
			OnStoreError: policy,
			Timeout:      time.Second, // a busy machine is no outage
			Observer: core.Observers(log, core.ObserverFunc(func(_ context.Context, e core.Event) {
				p.record(name, e)
			})),
		})
		if err != nil {
			return nil, err
		}
		guard, err := nethttp.New(limiter, func(*http.Request) (string, error) { return id, nil },
			nethttp.WithHeaders(headers.XRateLimit), nethttp.WithOutageRetryAfter(time.Second))
		if err != nil {
			return nil, err
		}
		p.handlers[name] = guard.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			writeJSON(w, http.StatusOK, map[string]string{"message": "Hello, World!"})
		}))
	}
	return p, nil
}

// record notes a decision under a policy.
func (p *policies) record(name string, e core.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.answers[name]
	uncounted := errors.Is(e.Decision.Err, core.ErrStore) || e.Decision.Source == core.SourceFallback
	if a.Uncounted && !uncounted {
		a.Resumed = millis(time.Now())
	}
	a.Uncounted = uncounted
	a.Answers = keepLast(append(a.Answers, Answer{nethttp.Status(e.Decision), e.Decision.Source.String()}), maxAnswers)
}

func (p *policies) state() Outage {
	away, answers, changed := p.stores.Look()
	o := Outage{Away: away, Answers: answers, Policies: map[string]PolicyAnswers{}}
	if !changed.IsZero() {
		o.Changed = millis(changed)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, a := range p.answers {
		last := append([]Answer{}, a.Answers[max(0, len(a.Answers)-maxAnswers):]...)
		o.Policies[name] = PolicyAnswers{last, a.Uncounted, a.Resumed}
	}
	return o
}

package live

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sashlimit/sash/core"
)

// session belongs to one page: judges with a limit, and their answers. Other settings are another
// session. Its methods are safe for concurrent use.
type session struct {
	id       string
	settings Settings
	replicas [Replicas]*replica
	fixed    *fixedWindow
	policies *policies
	turn     atomic.Int64 // counts requests; each goes to the next replica

	mu        sync.Mutex
	used      time.Time // when a page last asked; guarded by the table of sessions
	judges    map[string]*judge
	byReplica [Replicas]int // the requests that the log admitted at each
	events    []Event
	seq       int // of the newest event
}

// Event is one request and its verdicts.
type Event struct {
	Seq      int               `json:"seq"`
	At       float64           `json:"at"` // milliseconds since 1970
	Client   int               `json:"client"`
	Verdicts map[string]string `json:"verdicts"` // of the judges
}

func newSession(id string, s Settings, stores *Stores, log core.Observer) (*session, error) {
	x := &session{id: id, settings: s, fixed: &fixedWindow{limit: s.Limit, window: s.window()}}
	x.judges = map[string]*judge{}
	for _, l := range lanes() {
		x.judges[l.ID] = &judge{window: s.window(), clients: map[int]*worst{}}
	}
	var err error
	for i := range x.replicas {
		if x.replicas[i], err = newReplica(stores.replicas[i], s, log); err != nil {
			return nil, err
		}
	}
	x.policies, err = newPolicies(id, s, stores, log)
	return x, err
}

// request serves one request of a client at the replica whose turn it is: through the middleware, and judged by the
// others too.
func (x *session) request(w http.ResponseWriter, r *http.Request, client int) {
	replica := int(x.turn.Add(1)-1) % Replicas
	now := time.Now()
	t := &trial{fmt.Sprintf("%s:%d", x.id, client), client, replica, now, map[string]core.Decision{
		fixed: {Allowed: x.fixed.allow(client, now), At: now},
	}}
	ctx := context.WithValue(r.Context(), trialKey{}, t)
	for _, limiter := range x.replicas[replica].others {
		limiter.Allow(ctx, t.key)
	}
	x.replicas[replica].handler.ServeHTTP(w, r.WithContext(ctx))
	x.record(t)
}

// record notes a trial. The response is sent after it, so a page that has the answer finds it in the state.
func (x *session) record(t *trial) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.seq++
	e := Event{x.seq, millis(t.at), t.client, map[string]string{}}
	for name, d := range t.decisions {
		e.Verdicts[name] = x.judges[name].record(t.client, d, t.at)
	}
	if t.decisions[core.SlidingLog.String()].Allowed {
		x.byReplica[t.replica]++
	}
	x.events = keepLast(append(x.events, e), maxEvents)
}

// keepLast returns the last n to 2n of list, in memory of at most that size.
func keepLast[T any](list []T, n int) []T {
	if len(list) < 2*n {
		return list
	}
	return slices.Clone(list[len(list)-n:])
}

// State tells a page about its session.
type State struct {
	Now      float64           `json:"now"` // milliseconds since 1970
	Settings Settings          `json:"settings"`
	Seq      int               `json:"seq"` // of the newest event
	Judges   map[string]Judged `json:"judges"`
	Replicas [Replicas]int     `json:"replicas"` // the requests that the log admitted at each
	Events   []Event           `json:"events"`   // after the one that the page has
	Outage   Outage            `json:"outage"`
}

// state returns the state with the events after the one of a number.
func (x *session) state(after int) State {
	outage := x.policies.state()
	x.mu.Lock()
	defer x.mu.Unlock()
	s := State{
		Now: millis(time.Now()), Settings: x.settings, Seq: x.seq, Judges: map[string]Judged{},
		Replicas: x.byReplica, Events: []Event{}, Outage: outage,
	}
	for name, j := range x.judges {
		s.Judges[name] = j.state()
	}
	news := min(max(0, x.seq-after), maxEvents, len(x.events))
	s.Events = append(s.Events, x.events[len(x.events)-news:]...)
	return s
}

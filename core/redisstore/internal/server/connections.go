package server

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore/internal/script"
)

const (
	// connectTime is how long a connection may take to be made, with all that go-redis says on it first, however short
	// the timeouts of requests are.
	connectTime = 5 * time.Second

	// overdue is how long a connection is in the making when another may be begun: the way may have been closed when
	// this one was begun, and open now.
	overdue = time.Second

	// A connection to a server that is not far away is made in less than prompt. One is expected to be free soon if the
	// last time was so long ago, and two round trips.
	prompt = 20 * time.Millisecond

	// fewMaking is how many connections to a server may be in the making at a time; as many more as there are already.
	// So many are made to a server that is far away, before requests wait for them: it takes too long then
	// (TestFarStore of redisstore).
	fewMaking = 4

	// doubtAfter is how long connections are idle before they are tried: a server or a NAT may have forgotten them.
	doubtAfter = time.Minute
)

// connections are those to one server that this process knows of, because a script has gone through them. They are in
// go-redis's pool, where a request that finds none makes one within its own time, and breaks it off then. So a request
// waits here until one is free, while one is made in the background: if the request has left by then, the next has it
// (TestFarStore of redisstore). The zero value lets all pass.
type connections struct {
	client *Client
	server *Server
	via    redis.UniversalClient // makes them; nil if they are not waited for
	limit  int                   // of the pool
	ofMap  bool                  // what is waited for is the map of a cluster, and then a connection to a master

	mu      sync.Mutex // guards the fields below
	free    int
	doubted int       // were free, and may be broken
	freed   time.Time // when one became free last, or was made
	taken   int
	making  int
	waiting []*waiter // the first waits for longest

	trip atomic.Int64 // see roundTrip
}

// roundTrip is how long a reply took on the connection that was made last, and an eighth.
func (s *connections) roundTrip() time.Duration { return time.Duration(s.trip.Load()) * 9 / 8 }

// reached notes that a connection has been made, and how long a reply took.
func (s *connections) reached(roundTrip time.Duration) {
	s.trip.Store(int64(roundTrip))
	s.server.reached(roundTrip)
}

// Target is what a connection is wanted for: requests of a client by a rule.
type Target struct {
	Rule *script.Rule
	Key  string
}

// probe returns the call of a script that changes nothing. The server knows the script then.
func (t Target) probe() []any {
	args := t.Rule.Call(&core.Ask{Key: t.Key})
	args[0], args[1] = "eval", t.Rule.Script.Source
	return args
}

// waiter is a call that waits for a connection.
type waiter struct {
	Target
	deadline time.Time
	made     chan error // nil, or why there is none; has room for one
	calls    int        // with those behind it, in its queue
}

// init has connections waited for. node is the server's client, or nil for the program's own.
func (s *connections) init(c *Client, own *Server, node *redis.Client) {
	s.client, s.server, s.limit, s.ofMap = c, own, maxCalls, c.cluster != nil && node == nil
	if node == nil {
		node = c.Heeding
	}
	if node == nil {
		s.via = c.RDB
		return
	}
	o := node.Options()
	s.via, s.limit = node, o.PoolSize
	if o.MaxActiveConns > 0 {
		s.limit = min(s.limit, o.MaxActiveConns)
	}
}

// take waits until there is a connection for a, or a is over. What was taken is given back when a ends.
func (s *connections) take(a *Attempt, t Target) error {
	if s.via == nil {
		return nil
	}
	if err := s.wait(a, t); err != nil {
		return err
	}
	if !s.ofMap {
		a.take(s, t)
		return nil
	}
	s.giveBack(t, false)
	if node := s.client.Server(a, script.FirstKey(t.probe())); node != s.client.First {
		return node.connections.take(a, t)
	}
	return nil
}

// wait waits as take does.
func (s *connections) wait(a *Attempt, t Target) error {
	if s.takeFree() {
		return nil
	}
	w := &waiter{t, a.deadline, make(chan error, 1), 1}
	if a.Batch != nil {
		if soon := 2*s.roundTrip() + prompt; s.freeSince(time.Now().Add(-soon)) {
			w.calls += a.Batch.Hold(time.Now().Add(soon))
		}
		defer a.Batch.Sent()
	}
	s.mu.Lock()
	s.waiting = append(s.waiting, w)
	if s.free > 0 { // since then
		s.free--
		s.give(nil)
	}
	s.make()
	s.mu.Unlock()
	select {
	case err := <-w.made:
		return err
	case <-a.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.waiting, w); i >= 0 {
		s.waiting = slices.Delete(s.waiting, i, i+1)
	} else if <-w.made == nil {
		s.taken--
		s.give(nil)
	}
	return ErrQueued
}

// takeFree takes a free connection, and reports whether there was one.
func (s *connections) takeFree() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.free > 0 && time.Since(s.freed) > doubtAfter {
		s.free = 0
	}
	if s.free == 0 {
		return false
	}
	s.free--
	s.taken++
	return true
}

// giveBack gives a connection back, or notes that it is lost. Then the free ones are in doubt, and another is made for
// the request that comes next.
func (s *connections) giveBack(t Target, lost bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken--
	if !lost {
		s.give(nil)
		return
	}
	s.doubted, s.free = s.free, 0
	if s.make(); s.making == 0 {
		s.start(t)
	}
}

// begin has a connection made if there is none.
func (s *connections) begin(t Target) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.via != nil && s.free+s.taken+s.making == 0 {
		s.start(t)
	}
}

// make has a connection made for each call that waits, within bounds. s.mu must be held.
func (s *connections) make() {
	there, calls := s.free+s.taken, 0
	for _, w := range s.waiting {
		for calls += w.calls; s.making < min(max(fewMaking, there), calls, s.limit-there); {
			s.start(w.Target)
		}
	}
}

// start begins to make a connection. s.mu must be held.
func (s *connections) start(t Target) {
	s.making++
	late := time.AfterFunc(overdue, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.making--
		s.make()
	})
	far := time.AfterFunc(prompt, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for s.free+s.taken+s.making < min(fewMaking, s.limit) {
			s.start(t)
		}
	})
	go func() {
		a := s.client.Unheard(context.Background(), s.server, time.Now().Add(connectTime))
		err := s.connect(a, t)
		switch a.End(err); {
		case a.LateOr(err) == ErrLate:
			err = ErrQueued // for the call that waits
		case IsReply(err) && !a.sentAt.IsZero() && !closes(err):
			err = nil // the script of the call that waits has an answer of its own
		}
		switch {
		case err != nil:
		case s.ofMap:
			s.client.mapped.Store(true)
			s.client.Warm(t.Rule)
			s.reached(0)
		default:
			s.reached(time.Since(a.sentAt))
		}
		far.Stop()
		s.mu.Lock()
		if late.Stop() {
			s.making--
		}
		s.give(err)
		if err != nil {
			s.make()
		}
		s.mu.Unlock()
	}()
}

// closes reports whether go-redis closes the connection after a reply.
func closes(reply error) bool { return Begins(reply, "READONLY") }

// connect sends a script that changes nothing, or loads the map of a cluster.
func (s *connections) connect(a *Attempt, t Target) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = Unreadable(p)
		}
	}()
	if s.ofMap {
		_, err = s.client.cluster.MasterForKey(a, script.FirstKey(t.probe()))
		return err
	}
	a.client.Scripts.Add(1)
	for again := true; again; again = err != nil && !IsReply(err) && a.Err() == nil && s.wasBroken(a) {
		err = s.via.Process(a, newOnce(a, t.probe()))
	}
	return err
}

// wasBroken reports whether the connection on which a's script was lost may be one that was there before: go-redis does
// not see that one by TLS is broken.
func (s *connections) wasBroken(a *Attempt) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.sentAt.IsZero() || s.doubted == 0 {
		return false
	}
	s.doubted--
	a.sentAt = time.Time{}
	return true
}

// give gives a connection, or the reason why there is none, to the call that waits for longest. A call that would not
// have its reply in time is passed over: it would break the connection off. s.mu must be held.
func (s *connections) give(err error) {
	if err == nil {
		s.freed = time.Now()
	}
	for i, w := range s.waiting {
		if err != nil || w.deadline.IsZero() || time.Until(w.deadline) > s.roundTrip() {
			s.waiting = slices.Delete(s.waiting, i, i+1)
			if err == nil {
				s.taken++
			}
			w.made <- err
			return
		}
	}
	if err == nil {
		s.free++
	}
}

// freeSince reports whether a connection has become free since a time.
func (s *connections) freeSince(at time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.freed.After(at)
}

// Warm has a connection made to each server that is known, and the script of a rule loaded there.
func (c *Client) Warm(rule *script.Rule) {
	names := 1
	if c.ring != nil || c.mapped.Load() {
		names = 64 // most servers hold some of them
	}
	for i := range names {
		t := Target{rule, strconv.Itoa(i)}
		c.Server(context.Background(), script.FirstKey(t.probe())).connections.begin(t)
	}
}

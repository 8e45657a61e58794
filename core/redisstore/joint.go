package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore/internal/gather"
	"github.com/sashlimit/sash/core/redisstore/internal/script"
	"github.com/sashlimit/sash/core/redisstore/internal/server"
	"github.com/sashlimit/sash/internal/notice"
)

// Behind the address of a single server there may be a proxy that sends each script to the server of its first key. One
// script for several clients would count all of them on the server of the first one, and the next script on another,
// so that each client had its limit several times. So a batch of several clients is sent as a pipeline, a script for
// each request, until a probe has seen that one script may have the keys of several clients.

// joint is what is known of scripts with the keys of several clients.
type joint struct {
	made   time.Time // the store
	mode   atomic.Int32
	due    atomic.Int64           // when a probe may begin, in nanoseconds since the store was made; never during one
	pause  time.Duration          // after the latest probe; belongs to the probe that is under way
	unsaid atomic.Pointer[string] // the text of the notice, until an observer has heard it
}

// The modes of a joint.
const (
	unproved  int32 = iota // no probe has told yet
	joined                 // they may be sent
	split                  // their counts lie on several servers
	forbidden              // see WithoutBatches
)

const (
	// In each round of a probe gather.MaxBatch new clients are charged by one script, and then looked at one by one. A
	// server that owns a part p of all clients escapes only if the script and every client miss it, or all hit it. For
	// a tenth that is 0.9^256, once in 500 billion probes; for a fiftieth, once in 180.
	probeRounds = 8

	// A round takes at most five round trips, and this long.
	probeTimeout = 2 * time.Second

	// A probe that could not tell is repeated after a second at least. Each pause is twice the one before, up to
	// longestPause: a proxy may refuse such scripts always.
	probePause, longestPause = time.Second, time.Minute
)

// WithoutBatches makes a store send a script of its own for each request. Without it, requests of several clients that
// wait together for a single server share one script, once a probe has seen that all their keys are on one server:
// behind a proxy that spreads keys over several servers they are not. The probe counts some clients of its own, and
// deletes them. With WithoutBatches there is no probe. Requests that wait together still share a round trip.
func WithoutBatches() Option {
	return func(s *Store) { s.joint.mode.Store(forbidden) }
}

// may reports whether a batch may be sent as one script.
func (j *joint) may(batch []*call) bool {
	switch j.mode.Load() {
	case joined:
		return true
	case unproved:
		return oneClient(batch)
	}
	return len(batch) == 1
}

// oneClient reports whether all requests of a batch have the same first key.
func oneClient(batch []*call) bool {
	first := &batch[0].Request
	return !slices.ContainsFunc(batch[1:], func(c *call) bool {
		return c.Request.Key != first.Key || !c.Request.ledger.rule.SharesKeys(&first.ledger.rule)
	})
}

// findOut has a probe find out in the background whether one script may have the keys of several clients, if a probe is
// due and cannot delay a decision. heard is a rule of which an observer hears, or nil.
func (s *Store) findOut(heard *core.Binding) {
	j, due, age := &s.joint, s.joint.due.Load(), time.Since(s.joint.made)
	if j.mode.Load() != unproved || int64(age) < due || s.client.First.Informer() == nil ||
		!j.due.CompareAndSwap(due, math.MaxInt64) {
		return
	}
	go func() {
		mode, _ := s.probe(context.Background())
		s.learn(mode)
		s.say(heard)
		j.pause = min(max(2*j.pause, probePause), longestPause)
		j.due.Store(int64(time.Since(j.made) + j.pause))
	}()
}

// noteAnswer is called when a server has answered a request by a rule.
func (s *Store) noteAnswer(rule *core.Binding) {
	if s.joint.unsaid.Load() != nil {
		go s.say(rule)
	}
}

// say gives the notice of a split, if it has not been given yet and an observer hears of rule.
func (s *Store) say(rule *core.Binding) {
	if rule == nil || rule.Notice == nil {
		return
	}
	if text := s.joint.unsaid.Swap(nil); text != nil {
		rule.Notice(notice.FirstKeyProxy, *text)
	}
}

// errSplit returns what is wrong with a server whose scripts go to several.
func (s *Store) errSplit() error {
	return fmt.Errorf("sash: %s: behind this address is a proxy that sends a script to the server of its first key, "+
		"and other keys of the script are counted there too: so each request gets a script of its own, "+
		"which is exact, but slower: give the address of one server, or of all by redis.NewClusterClient or "+
		"redis.NewRing, or redisstore.WithoutBatches to say that it is meant so",
		cmp.Or(s.client.First.Addr(), "the server"))
}

// learn keeps the mode that a probe has found.
func (s *Store) learn(mode int32) {
	switch mode {
	case joined:
		s.joint.mode.CompareAndSwap(unproved, joined)
	case split:
		if s.joint.mode.Swap(split) != split {
			text := strings.TrimPrefix(s.errSplit().Error(), "sash: ")
			s.joint.unsaid.Store(&text)
		}
	}
}

// probe finds out whether one script may have the keys of several clients. It returns joined or split, or unproved and
// why that could not be found out. No breaker hears of the probe.
func (s *Store) probe(ctx context.Context) (mode int32, err error) {
	rule, elsewhere := checkRule, 0
	rule.Limits = []core.Limit{core.PerMinute(1000)} // the script is one that most programs use
	counts := s.newLedger(rule)
	for range probeRounds {
		strayed, err := counts.strays(ctx)
		if err != nil {
			return unproved, err
		}
		if !strayed {
			continue
		}
		// A single round may have met a failover, or a step of the clock.
		if elsewhere++; elsewhere > 1 {
			return split, nil
		}
	}
	if elsewhere > 0 {
		return unproved, errors.New("sash: some counts were elsewhere, and later all were there")
	}
	return joined, nil
}

// strays charges some new clients a unit each by one script, and reports whether one of them by itself is not seen with
// exactly that unit. Then it deletes them.
func (l *ledger) strays(ctx context.Context) (strayed bool, err error) {
	c, name := l.store.client, "probe "+strconv.FormatUint(rand.Uint64(), 36)+" "
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	deadline, _ := ctx.Deadline()
	a := c.Unheard(ctx, c.First, deadline)
	defer func() { a.End(err) }()
	batch := make([]*call, gather.MaxBatch)
	for i := range batch {
		batch[i] = &call{Request: request{Ask: core.Ask{Key: name + strconv.Itoa(i), Cost: 1}, ledger: l}}
	}
	args := l.batches.command(batch)
	now, reply, err := l.ask(ctx, args)
	if err != nil {
		return false, err
	}
	// The first key is that of the script, so that such a proxy deletes them where they are.
	defer func() { _ = c.Del(ctx, append([]any{"del"}, args[3:3+len(batch)]...)) }()
	for _, charged := range batch {
		if _, reply, err = charged.Request.readPart(reply, now); err != nil {
			return false, err
		}
		charged.Request.Cost = 0
	}
	var uses [1]core.Usage
	for i, cmd := range l.batches.apart.exec(a, batch) {
		reply, err := server.Text(cmd)
		if redis.HasErrorPrefix(err, "NOSCRIPT") { // it was not sent there, or was flushed
			now, reply, err = l.ask(ctx, l.rule.Call(&batch[i].Request.Ask))
		} else if err == nil {
			now, reply, err = script.ReadTime(reply)
		}
		if err == nil {
			_, _, err = l.rule.Read(reply, now, &batch[i].Request.Ask, uses[:])
		}
		if err != nil || uses[0].Used != 1 {
			return err == nil, err
		}
	}
	return false, nil
}

// ask sends a script, and returns the time in its reply and the rest.
func (l *ledger) ask(ctx context.Context, args []any) (now int64, rest string, err error) {
	reply, err := l.store.client.Ask(ctx, args, l.rule.Script.Source)
	if err != nil {
		return 0, "", err
	}
	return script.ReadTime(reply)
}

package server

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync/atomic"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore/internal/batch"
	"github.com/sashlimit/sash/core/redisstore/internal/script"
	"github.com/sashlimit/sash/internal/notice"
)

// One script for several clients is cheaper than one for each. But behind the address of a server there may be a proxy
// that sends a script to the server of its first key: then the counts of the other clients would be on a server where
// the next script does not find them. So a batch is sent as a pipeline, a script for each request, until a probe has
// found that all keys of a script are on one server. The probe runs once each time that the breaker has closed.

// sharedScripts tells whether scripts may have the keys of several clients.
type sharedScripts struct {
	mayProbe        bool          // the server is the only one, and the probe does not take its only connection
	shareGeneration atomic.Uint64 // the generation of the breaker in which such scripts may be sent, plus one
	probeGeneration atomic.Uint64 // the generation of the latest probe, plus one
}

// proxyText is the notice of a proxy that sends scripts to several servers.
const proxyText = "behind this address is a proxy that sends a script to the server of its first key, " +
	"and other keys of the script are counted there too: so each request gets a script of its own, " +
	"which is exact, but slower: give the address of one server, or of all by redis.NewClusterClient or " +
	"redis.NewRing, or redisstore.WithoutSharedScripts to say that it is meant so"

// probeOnce runs the probe in the background, unless it has run in this generation of the breaker. It is not repeated
// after an error either: a proxy may close the connection at the script of a probe.
func (s *Server) probeOnce(generation uint64) {
	if !s.shared.mayProbe || s.shared.probeGeneration.Swap(generation+1) == generation+1 {
		return
	}
	go func() {
		if shared, err := s.ShareScripts(context.Background()); err == nil && !shared {
			s.config.Notify(notice.FirstKeyProxy, s.addr+": "+proxyText)
		}
	}()
}

// ShareScripts runs the probe. If it reports true, one script may have the keys of several clients from now on.
func (s *Server) ShareScripts(ctx context.Context) (shared bool, err error) {
	generation, err := s.breaker.start()
	if err != nil {
		return false, err
	}
	if shared, err = s.probe(ctx); shared {
		s.shared.shareGeneration.Store(generation + 1)
	}
	return shared, err
}

// probe charges new clients a unit each by one script, looks at each client by itself, and deletes them. It reports
// whether all were there. A server that owns half of the clients escapes the probe once in four billion times, one that
// owns a tenth once in 30. The breaker does not learn of the probe.
func (s *Server) probe(ctx context.Context) (shared bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	limits := []core.Limit{core.PerMinute(1000)} // the script is one that most programs use
	rule := script.New(s.config.Prefix, core.Binding{Name: "redisstore.probe", Limits: limits},
		script.Decide(false, limits))
	name := strconv.FormatUint(rand.Uint64(), 36) + " "
	calls, del := make([]*call, batch.MaxBatch), []any{"del"}
	uses := make([]core.Usage, len(calls))
	for i := range calls {
		key := name + strconv.Itoa(i)
		calls[i] = &call{Request: Request{Ask: core.Ask{Key: key, Cost: 1}, Rule: &rule}}
		del = rule.Keys(del, key)
	}
	// The first key is that of the script, so that a proxy of that kind deletes them where they are.
	defer process(ctx, s.via, newCommand(ctx, del, nil))
	ask := func(shared bool) []*command {
		cmds := encode(ctx, calls, shared)
		s.send(ctx, cmds)
		cmds = s.sendAgain(ctx, cmds)
		for _, cmd := range cmds {
			cmd.read(cmd.Err(), func(_ *call, _ core.Decision, own error) {
				if err == nil {
					err = own
				}
			})
		}
		return cmds
	}
	if charged := ask(true); len(charged) > 1 || err != nil {
		return false, err
	}
	for i, c := range calls {
		c.Request.Cost, c.Request.Usage = 0, uses[i:i+1]
	}
	ask(false)
	for _, use := range uses {
		if err != nil || use.Used != 1 {
			return false, err
		}
	}
	return true, nil
}

package server

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore/internal/batch"
	"github.com/sashlimit/sash/core/redisstore/internal/script"
	"github.com/sashlimit/sash/internal/notice"
)

// One script for several clients is cheaper than one for each. But behind the address of a server there may be a proxy
// that sends a script to the server of its first key: then the counts of the other clients would be on a server where
// the next script does not find them. So a batch is sent as a pipeline, a script for each request, until a probe has
// found that all keys of a script are on one server. The probe runs once each time that the breaker has closed.

// jointScripts is what is known of scripts with the keys of several clients.
type jointScripts struct {
	possible bool          // the server is the only one, and a probe does not take its only connection
	proved   atomic.Uint64 // the generation of the breaker in which they may be sent, plus one
	probed   atomic.Uint64 // the generation of the latest probe, plus one
}

// probeTimeout bounds a probe, which takes up to five round trips.
const probeTimeout = 2 * time.Second

// splitText is the notice of a proxy that sends scripts to several servers.
const splitText = "behind this address is a proxy that sends a script to the server of its first key, " +
	"and other keys of the script are counted there too: so each request gets a script of its own, " +
	"which is exact, but slower: give the address of one server, or of all by redis.NewClusterClient or " +
	"redis.NewRing, or redisstore.WithoutJointScripts to say that it is meant so"

// probeOnce runs the probe in the background, unless it has run in this generation of the breaker.
func (s *Server) probeOnce(generation uint64) {
	if !s.joint.possible || s.joint.probed.Swap(generation+1) == generation+1 {
		return
	}
	go func() {
		if joint, err := s.Join(context.Background()); err == nil && !joint {
			s.config.Notify(notice.FirstKeyProxy, s.addr+": "+splitText)
		}
	}()
}

// Join runs the probe. If it reports true, one script may have the keys of several clients from now on.
func (s *Server) Join(ctx context.Context) (joint bool, err error) {
	generation, err := s.breaker.start()
	if err != nil {
		return false, err
	}
	if joint, err = s.probe(ctx); joint {
		s.joint.proved.Store(generation + 1)
	}
	return joint, err
}

// probe charges new clients a unit each by one script, looks at each client by itself, and deletes them. It reports
// whether all were there. A server that owns half of the clients escapes the probe once in four billion times, one that
// owns a tenth once in 30. The breaker does not learn of the probe.
func (s *Server) probe(ctx context.Context) (joint bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	limits := []core.Limit{core.PerMinute(1000)} // the script is one that most programs use
	rule := script.New(s.config.Prefix, core.Binding{Name: "redisstore.probe", Limits: limits},
		script.Decide(false, limits))
	name := strconv.FormatUint(rand.Uint64(), 36) + " "
	calls := make([]*call, batch.MaxBatch)
	uses := make([]core.Usage, len(calls))
	for i := range calls {
		calls[i] = &call{Request: Request{Ask: core.Ask{Key: name + strconv.Itoa(i), Cost: 1}, Rule: &rule}}
	}
	fail := func(_ *call, _ core.Decision, own error) {
		if err == nil {
			err = own
		}
	}
	ask := func(joint bool) []*command {
		cmds := encode(ctx, calls, joint)
		s.send(ctx, cmds)
		cmds = s.sendAgain(ctx, cmds)
		for _, cmd := range cmds {
			cmd.read(cmd.Err(), fail)
		}
		return cmds
	}
	charged := ask(true)
	if len(charged) > 1 || err != nil {
		return false, err
	}
	// The first key is that of the script, so that such a proxy deletes them where they are.
	defer func() { _ = s.Del(ctx, append([]any{"del"}, charged[0].Args()[3:3+len(calls)]...)) }()
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

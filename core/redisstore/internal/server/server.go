package server

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore/internal/batch"
)

// Config configures a [Client].
type Config struct {
	Prefix        string                  // of all keys
	SharedScripts bool                    // one script may have the keys of several clients, where a check allows it
	Notify        func(code, text string) // gives a notice; it may be called from any goroutine
	MaxFailures   int                     // failures in a row that open a breaker; 0: 5
}

// Server has the queue and the breaker of one Redis server.
type Server struct {
	*transport
	config  *Config
	node    *redis.Client // of a cluster or a ring; nil for the only server, or for all that are not known
	via     redis.UniversalClient
	addr    string
	created time.Time
	breaker *breaker
	queue   *batch.Queue[Request, core.Decision]
	shared  sharedScripts

	maxSlots int // connections that there may be; 0: not known
}

const (
	// A caller that serves its own call gives the server as long as its own deadline leaves: at least DefaultTimeout.
	// Up to a millisecond of a timeout has passed when the call starts, so that the default timeout still qualifies.
	inlineMin = core.DefaultTimeout - time.Millisecond

	// A caller that serves its own call and is cancelled stays until its deadline: see redisstore.New.
	inlineMax = time.Second

	// probeTimeout bounds a probe of the breaker. The connection for it is made within this time, however short the
	// timeouts of requests are.
	probeTimeout = 5 * time.Second

	// A server is far away if a ping takes warmAfter. With warmConnections, each batch that is in flight
	// ordinarily has one.
	warmAfter, warmConnections = 20 * time.Millisecond, 4
)

// canStop reports whether a command returns when its context ends. Otherwise a part of the program runs while a
// caller waits for a connection, and might not honor the context. go-redis dials on a goroutine of its own.
func canStop(o *redis.Options) bool {
	return o.OnConnect == nil && o.Limiter == nil && o.CredentialsProvider == nil &&
		o.CredentialsProviderContext == nil && o.StreamingCredentialsProvider == nil
}

// newServer returns what is known of a node of a cluster or a ring, or of the client's only server if node is nil.
func newServer(t *transport, config *Config, node *redis.Client) *Server {
	s := &Server{transport: t, config: config, node: node, via: t.RDB, created: time.Now()}
	queue := batch.Config[Request, core.Decision]{
		Serve: s.serve, ErrLate: ErrLate, ErrQueued: ErrQueued, ErrCanceled: errEnded,
		MinWait: core.DefaultTimeout, InlineMin: inlineMin,
	}
	if node == nil && t.Single != nil && canStop(t.Single.Options()) {
		queue.InlineMax = inlineMax
	}
	if client := cmp.Or(node, t.Single); client != nil {
		o := client.Options()
		s.via, s.addr, queue.MaxSlots = client, o.Addr, o.PoolSize
		if o.MaxActiveConns > 0 {
			queue.MaxSlots = min(queue.MaxSlots, o.MaxActiveConns)
		}
		s.maxSlots = queue.MaxSlots
		s.shared.mayProbe = config.SharedScripts && node == nil && s.maxSlots > 1
	}
	s.breaker, s.queue = newBreaker(s.addr, cmp.Or(config.MaxFailures, maxFailures)), batch.New(queue)
	return s
}

// do has a request served, together with others that wait. While the breaker is not closed it returns at once, after it
// has started a probe with the request if one is due: the result of the probe is for later requests.
func (s *Server) do(ctx context.Context, deadline time.Time, r *Request) (core.Decision, error) {
	openErr := s.breaker.openErr.Load()
	if openErr == nil {
		return s.queue.Do(ctx, deadline, r)
	}
	generation, ok := s.breaker.startProbe(time.Now())
	if !ok {
		return core.Decision{}, *openErr
	}
	probe := batch.NewCall[Request, core.Decision](context.WithoutCancel(ctx), time.Now().Add(probeTimeout), *r)
	go func() {
		s.ask([]*call{probe}, generation)
		s.warm()
	}()
	// The request may be counted, so no cached refusal answers it: see StageReply.
	return core.Decision{}, core.AtStage(core.StageReply, *openErr)
}

// warm has connections made in the background, if a ping takes long and the breaker is closed: a request might not have
// the time to wait for one. The probe runs too, since go-redis may have other connections for pipelines.
func (s *Server) warm() {
	generation, err := s.breaker.start()
	if err != nil {
		return
	}
	start := time.Now()
	if s.ping(); time.Since(start) < warmAfter {
		return
	}
	s.probeOnce(generation)
	for range min(warmConnections, s.maxSlots) - 1 {
		go s.ping()
	}
}

// ping has a connection made, if none is idle.
func (s *Server) ping() {
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	process(ctx, s.via, newCommand(ctx, []any{"ping"}, nil))
}

// serve answers a batch of the queue; see [batch.Config].
func (s *Server) serve(calls []*call) (inTime bool) {
	generation, err := s.breaker.start()
	if err != nil {
		for _, c := range calls {
			c.Answer(core.Decision{}, err)
		}
		return true
	}
	return s.ask(calls, generation)
}

// ask asks the server for a batch, and gives the breaker the result. It returns false if the deadline has passed.
func (s *Server) ask(calls []*call, generation uint64) (inTime bool) {
	s.countBatch(uint64(len(calls)))
	failAt, deadline := s.queue.Deadline(calls)
	a := s.newAttempt(calls[0].Context, s.breaker, generation, failAt, deadline)
	cmds := encode(a, calls, s.shared.shareGeneration.Load() == generation+1)
	s.send(a, cmds)
	failure, missed := summarize(cmds)
	if failure != nil {
		failure = a.hint(failure)
	}
	a.report(failure) // now, since the next commands may go to other servers
	if missed {
		cmds = s.sendAgain(a, cmds)
	}
	if !a.end() {
		return false
	}
	for _, cmd := range cmds {
		err := cmd.Err()
		if err != nil {
			err = a.hint(err)
		}
		cmd.read(err, func(c *call, d core.Decision, err error) { c.Answer(d, err) })
	}
	if len(cmds) > 1 {
		s.probeOnce(generation)
	}
	return true
}

// summarize returns an error that speaks against the server, if a command has one, and whether commands have not run.
func summarize(cmds []*command) (failure error, missed bool) {
	for _, cmd := range cmds {
		switch err := cmd.Err(); {
		case err == nil:
		case NotRun(err), len(cmd.calls) > 1 && IsBatchError(err):
			missed = true
		case IsFailure(err):
			failure = err
		}
	}
	return failure, missed
}

// send sends the commands of a batch to the server.
func (s *Server) send(ctx context.Context, cmds []*command) {
	s.Scripts.Add(uint64(len(cmds)))
	via := s.via
	if s.node == nil { // without a deadline through the user's client, with its timeouts
		via = s.within(ctx)
	}
	if _, ok := via.(*redis.Client); ok || len(cmds) == 1 {
		process(ctx, via, cmds...)
		return
	}
	var group sync.WaitGroup // a pipeline through a client of several servers might be repeated
	for _, cmd := range cmds {
		group.Go(func() { process(ctx, via, cmd) })
	}
	group.Wait()
}

// sendAgain sends the commands again that have not run, each by itself, and returns all. After an error because
// requests came together, they get a script each until the next probe.
func (s *Server) sendAgain(ctx context.Context, cmds []*command) (all []*command) {
	for _, cmd := range cmds {
		if len(cmd.calls) > 1 && IsBatchError(cmd.Err()) {
			s.shared.shareGeneration.Store(0)
			singles := encode(ctx, cmd.calls, false)
			s.send(ctx, singles)
			all = append(all, singles...)
		} else {
			all = append(all, cmd)
		}
	}
	var group sync.WaitGroup
	for _, cmd := range all {
		if NotRun(cmd.Err()) {
			group.Go(func() { s.retry(ctx, cmd) })
		}
	}
	group.Wait()
	return all
}

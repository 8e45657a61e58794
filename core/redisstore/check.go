package redisstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore/internal/script"
	"github.com/sashlimit/sash/core/redisstore/internal/server"
)

const checkTimeout = 10 * time.Second // of all of Check

// Check asks Redis whether it is fit for counting, for programs that want to
// know when they start: nothing else in this package needs it. It returns nil,
// or all that it found, joined, in words that an operator can act on:
//
//   - a server that does not answer, or refuses the password;
//   - commands that the ACL user may not run: some decisions are made on a key
//     of its own, which is deleted again;
//   - a maxmemory-policy that evicts, where maxmemory is set: every key has a
//     TTL, so each policy but noeviction makes limits forget;
//   - a Config.Timeout of less than three round trips, as measured by these
//     decisions: the shortest of the limiters that have been made on the store,
//     or 100 ms if there is none yet;
//   - a client for a single server, or a shard of a Ring, at one of several
//     masters of a cluster, and slots of a cluster without an owner;
//   - a replica, one of several masters of the same data, and whatever makes
//     these decisions fail, as a server older than Redis 5 does.
//
// Of a cluster it asks every master, and of a ring every shard that is up. It may
// wait for 10 s, or until ctx ends. Where INFO is forbidden, unknown or without
// maxmemory, as at some services, role or memory stay unknown, which is no finding.
func (s *Store) Check(ctx context.Context) error {
	if err := s.ready(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	var found findings
	done := make(chan struct{})
	go func() { // the client may not honor ctx
		defer close(done)
		s.checkAll(ctx, &found)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		found.add(fmt.Errorf("sash: not every server of Redis has answered: "+
			"is it up, is the address right, is the network open, does it speak TLS where the client does, "+
			"and only there? %w", ctx.Err()))
	}
	return found.join()
}

// checkAll checks each server, and a cluster as a whole.
func (s *Store) checkAll(ctx context.Context, found *findings) {
	defer found.catch("the servers")
	cluster, _ := s.client.RDB.(*redis.ClusterClient)
	ring, _ := s.client.RDB.(*redis.Ring)
	switch {
	case cluster != nil:
		found.add(checkSlots(ctx, cluster, "the cluster"))
	case ring != nil && ring.Len() == 0:
		found.add(errors.New("sash: go-redis has taken every shard out of the ring: " +
			"are they up, are the addresses right, is the network open?"))
	}
	err := s.forEachServer(ctx, func(ctx context.Context, node redis.UniversalClient, addr string) {
		defer found.catch(addr)
		s.checkServer(ctx, node, addr, cluster, found)
	})
	if err != nil {
		found.add(explain("the servers", err, false))
	}
}

// forEachServer calls do for each master of a cluster, each shard of a ring that is up, or the only server. It may call
// do concurrently.
func (s *Store) forEachServer(
	ctx context.Context, do func(ctx context.Context, node redis.UniversalClient, addr string),
) error {
	each := func(ctx context.Context, node *redis.Client) error {
		do(ctx, node, node.Options().Addr)
		return nil
	}
	switch rdb := s.client.RDB.(type) {
	case *redis.ClusterClient:
		return rdb.ForEachMaster(ctx, each)
	case *redis.Ring:
		return rdb.ForEachShard(ctx, each)
	case *redis.Client:
		return each(ctx, s.client.Single) // go-redis writes rdb's options while the program uses rdb
	}
	do(ctx, s.client.RDB, "the server")
	return nil
}

// checkRule has a limit of each algorithm. The first is so short that its counts expire meanwhile.
var checkRule = core.Binding{Name: "redisstore.Check", Limits: checkLimits()}

func checkLimits() []core.Limit {
	limits := make([]core.Limit, len(core.Algorithms()))
	for i, a := range core.Algorithms() {
		limits[i] = core.PerMinute(1000).Named(a.String()).Using(a)
	}
	limits[0].Window = 10 * time.Millisecond
	return limits
}

// clientOf returns a client with keys on the master at addr, or "" if none is found, as on a master without slots.
func clientOf(ctx context.Context, cluster *redis.ClusterClient, addr string) string {
	keys := script.New("", checkRule, script.Script{}) // what stands in braces decides
	for i := range 4096 {
		client := strconv.Itoa(i)
		owner, err := cluster.MasterForKey(ctx, keys.Keys(nil, client)[0].(string))
		if err == nil && owner.Options().Addr == addr {
			return client
		}
	}
	return ""
}

// checkServer checks the server at addr. cluster is nil unless the server is one of its masters.
func (s *Store) checkServer(
	ctx context.Context, rdb redis.UniversalClient, addr string, cluster *redis.ClusterClient, found *findings,
) {
	info, err := rdb.Info(ctx).Result()
	if err != nil && (!server.IsReply(err) || server.HasCode(err, "NOAUTH", "WRONGPASS")) {
		found.add(explain(addr, err, false))
		return
	}
	found.add(checkInfo(addr, info)...)
	client, slots := "check", error(nil)
	if cluster != nil {
		client = clientOf(ctx, cluster, addr)
	} else if _, isNode := rdb.(*redis.Client); isNode {
		slots = checkSlots(ctx, rdb, addr)
		found.add(slots)
	}
	if client == "" {
		return
	}
	roundTrip, err := s.tryOut(ctx, rdb, client)
	s.mu.Lock()
	shortest := s.shortestTimeout
	s.mu.Unlock()
	switch {
	case err == nil:
		found.add(checkTimeouts(addr, roundTrip, shortest))
	case slots != nil && server.HasCode(err, "MOVED", "CLUSTERDOWN"), // both are in the findings already
		info != "" && server.HasCode(err, "READONLY"):
	default:
		found.add(explain(addr, err, true))
	}
}

const clusterSlots = 16384

// checkSlots returns what is wrong with the slots of the cluster of rdb, if it is of one: some have no owner, or rdb
// is for a single node and others have slots too. CLUSTER SLOTS is an error where there is no cluster.
func checkSlots(ctx context.Context, rdb redis.UniversalClient, addr string) error {
	ranges, err := rdb.ClusterSlots(ctx).Result()
	if err != nil && err.Error() != "redis: cluster has no nodes" { // of go-redis, where CLUSTER SLOTS is empty
		return nil
	}
	covered, masters := 0, map[string]bool{}
	for _, r := range ranges {
		if len(r.Nodes) > 0 {
			covered += r.End - r.Start + 1
			masters[r.Nodes[0].Addr] = true
		}
	}
	_, single := rdb.(*redis.Client)
	switch {
	case single && len(masters) > 1:
		return fmt.Errorf("sash: %s: this is one of %d masters of a cluster, and clients of the others get the policy "+
			"(MOVED): use redis.NewClusterClient", addr, len(masters))
	case covered < clusterSlots:
		return fmt.Errorf("sash: %s: %d of %d slots of the cluster have no owner, and their clients get the policy "+
			"(CLUSTERDOWN): mend it by redis-cli --cluster fix", addr, clusterSlots-covered, clusterSlots)
	}
	return nil
}

// tryOut makes some decisions, with pauses in which counts expire, on a store
// of its own: this one's breaker may be open. It returns how long the fastest
// took: the others may have opened a connection, or waited for a busy machine.
func (s *Store) tryOut(ctx context.Context, rdb redis.UniversalClient, client string) (time.Duration, error) {
	counts, err := New(rdb, WithPrefix(s.prefix)).Bind(checkRule)
	if err != nil {
		return 0, err
	}
	roundTrip := checkTimeout
	for i := range 4 {
		for range 3 {
			sent := time.Now()
			if err := counts.Take(ctx, core.Ask{Key: client, Cost: 1}).Err; err != nil {
				return 0, err
			}
			roundTrip = min(roundTrip, time.Since(sent))
		}
		// In the second pause some counts expire, in the third all.
		if !server.Rest(ctx, checkRule.Limits[0].Window*time.Duration(3+i)/5) {
			break
		}
	}
	return roundTrip, counts.Reset(ctx, client)
}

// findings holds what a Check has found.
type findings struct {
	mu   sync.Mutex
	errs []error
}

// add adds findings, of which some may be nil.
func (f *findings) add(errs ...error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.errs = append(f.errs, errs...)
}

// catch makes a finding of a panic of go-redis at a reply of the server at addr; see server.PanicError. It must be
// deferred.
func (f *findings) catch(addr string) {
	if p := recover(); p != nil {
		f.add(explain(addr, server.PanicError(p), true))
	}
}

func (f *findings) join() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return errors.Join(f.errs...)
}

// roundTripsPerTimeout is the least timeout in round trips: a decision may wait for the one before, and a
// script that the server does not know is sent again.
const roundTripsPerTimeout = 3

// checkTimeouts returns what is wrong with the shortest timeout of the rules, 0 if there is none yet, where a round
// trip takes so long.
func checkTimeouts(addr string, roundTrip, shortest time.Duration) error {
	least, which := roundTripsPerTimeout*roundTrip, "one"
	if shortest == 0 {
		shortest, which = core.DefaultTimeout, "the default"
	}
	if shortest >= least {
		return nil
	}
	// Rounded up, so that the advice is enough.
	least = (least + time.Millisecond - 1).Truncate(time.Millisecond)
	return fmt.Errorf("sash: %s: a round trip takes %v, and Config.Timeout is too short: it should be at least %v, "+
		"%d round trips, and %s is %v: decisions that wait for others would get the policy",
		addr, roundTrip.Round(100*time.Microsecond), least, roundTripsPerTimeout, which, shortest)
}

// checkInfo returns what is wrong according to the reply to INFO. Some of the errors may be nil.
func checkInfo(addr, info string) (wrong []error) {
	fields := infoFields(info)
	if role := fields["role"]; role == "slave" || role == "replica" {
		why := "cannot count (READONLY)"
		if fields["slave_read_only"] == "0" {
			why = "its master does not know what it counts"
		}
		wrong = append(wrong, fmt.Errorf("sash: %s: this is a replica, of %s:%s, and %s: "+
			"give the master's address, or use redis.NewFailoverClient or redis.NewClusterClient",
			addr, fields["master_host"], fields["master_port"], why))
	}
	if _, activeActive := fields["crdt_config_version"]; activeActive || fields["role"] == "active-replica" {
		wrong = append(wrong, fmt.Errorf("sash: %s: this is one of several masters of the same data (Active-Active, "+
			"or active-replica of KeyDB): each gives a client its whole limit: "+
			"give limits a database with one master", addr))
	}
	return append(wrong, checkMemory(addr, fields))
}

// explain returns err with what an operator can do about it. reached reports
// whether the server has answered before.
func explain(addr string, err error, reached bool) error {
	advice := server.Hint(err)
	switch {
	case advice != "":
	case reached || server.IsReply(err):
		advice = "the server answers, but cannot decide"
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		advice = "the server is there, and closes the connection: does it speak TLS where the client does not? " +
			"A proxy that closes at HELLO, with which go-redis begins, cannot be used"
	default:
		advice = server.Unreachable
	}
	return fmt.Errorf("sash: %s: %s: %w", addr, advice, err)
}

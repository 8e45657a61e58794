package redisstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
)

const (
	checkTimeout = 10 * time.Second // of all of Check
	leastVersion = 5                // of Redis: before it, a script that has read the time may not write
)

// Check asks Redis whether it is fit for counting, for programs that want to
// know when they start: nothing else in this package needs it. It returns nil,
// or all that it found, joined, in words that an operator can act on:
//
//   - a server that does not answer, or refuses the password;
//   - commands that the ACL user may not run: some decisions are made on a key
//     of its own, which is deleted again;
//   - a maxmemory-policy that evicts, where maxmemory is set: every key has a
//     TTL, so each policy but noeviction makes limits forget. With maxmemory 0,
//     Redis's default, Redis evicts nothing and grows as long as the machine has
//     memory; that is no finding;
//   - a Config.Timeout of less than three round trips, as measured by these
//     decisions: the shortest of the limiters that have been made on the store,
//     or [core.DefaultTimeout] if there is none yet;
//   - a replica, a server older than Redis 5, and whatever else makes a
//     decision fail.
//
// Of a cluster it asks every master, and of a ring every shard that is up. It may
// wait for 10 s, or until ctx ends. Where INFO is forbidden or unknown, that
// alone is no finding: then version, role and memory cannot be looked at, which
// it says only beside other findings.
func (s *Store) Check(ctx context.Context) error {
	if err := s.ready(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	var found findings
	done := make(chan struct{})
	go func() { // the client may not heed the end of ctx
		defer close(done)
		s.eachServer(ctx, &found)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		found.add(fmt.Errorf("sash: not every server of Redis has answered: "+
			"is it up, is the address right, is the network open? %w", ctx.Err()))
	}
	return found.join()
}

// findings are what is wrong, and what could not be looked at.
type findings struct {
	mu            sync.Mutex
	wrong, unseen []error
}

func (f *findings) add(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wrong = append(f.wrong, err)
}

// catch makes a finding of a panic of go-redis at a reply of the server at addr; see
// unreadable. It must be deferred.
func (f *findings) catch(addr string) {
	if p := recover(); p != nil {
		f.add(explain(addr, unreadable(p), true))
	}
}

func (f *findings) join() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.wrong) == 0 {
		return nil
	}
	return errors.Join(append(f.wrong, f.unseen...)...)
}

func (s *Store) eachServer(ctx context.Context, found *findings) {
	defer found.catch("the servers")
	client := "check " + strconv.FormatUint(rand.Uint64(), 36)
	var err error
	switch rdb := s.client.rdb.(type) {
	case *redis.ClusterClient:
		err = rdb.ForEachMaster(ctx, func(ctx context.Context, master *redis.Client) error {
			defer found.catch(master.Options().Addr) // clientOf may read the map of slots
			s.checkServer(ctx, master, master.Options().Addr, s.clientOf(ctx, rdb, master, client), found)
			return nil
		})
	case *redis.Ring:
		if rdb.Len() == 0 {
			found.add(errors.New("sash: go-redis has taken every shard out of the ring: " +
				"are they up, are the addresses right, is the network open?"))
		}
		err = rdb.ForEachShard(ctx, func(ctx context.Context, shard *redis.Client) error {
			s.checkServer(ctx, shard, shard.Options().Addr, client, found)
			return nil
		})
	case *redis.Client:
		// New reads the client's options; the program may use rdb meanwhile.
		s.checkServer(ctx, s.client.heeding, rdb.Options().Addr, client, found)
	default:
		s.checkServer(ctx, rdb, "the server", client, found)
	}
	if err != nil {
		found.add(explain("the servers", err, false))
	}
}

var checkRule = core.Rule{Name: "redisstore.Check", Limits: []core.Limit{
	{Name: "log", Requests: 1000, Window: 10 * time.Millisecond},
	{Name: "counter", Requests: 1000, Window: time.Minute, Algorithm: core.SlidingCounter},
}}

// clientOf returns a client with keys on master, or "" if none is found, as on a
// master without slots.
func (s *Store) clientOf(ctx context.Context, rdb *redis.ClusterClient, master *redis.Client, client string) string {
	for i := range 4096 {
		name := client + " " + strconv.Itoa(i)
		tag := appendTag(nil, checkRule.Name, checkRule.Rule, name)
		owner, err := rdb.MasterForKey(ctx, string(tag))
		if err == nil && owner.Options().Addr == master.Options().Addr {
			return name
		}
	}
	return ""
}

func (s *Store) checkServer(ctx context.Context, rdb redis.UniversalClient, addr, client string, found *findings) {
	defer found.catch(addr)
	info, err := rdb.Info(ctx).Result()
	switch {
	case err == nil:
		for _, err := range checkInfo(addr, info) {
			found.add(err)
		}
	case !isReply(err) || redis.HasErrorPrefix(err, "NOAUTH") || redis.HasErrorPrefix(err, "WRONGPASS"):
		found.add(explain(addr, err, false))
		return
	default:
		found.mu.Lock()
		found.unseen = append(found.unseen,
			fmt.Errorf("sash: %s: version, role and maxmemory-policy could not be looked at: %w", addr, err))
		found.mu.Unlock()
	}
	if client == "" {
		return
	}
	roundTrip, err := s.tryOut(ctx, rdb, client)
	switch {
	case err == nil:
		if err := checkTimeouts(addr, roundTrip, s.shortestTimeout()); err != nil {
			found.add(err)
		}
	case info == "" || !redis.HasErrorPrefix(err, "READONLY"):
		found.add(explain(addr, err, true))
	}
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
			if _, err := counts.Take(ctx, core.Ask{Key: client, Cost: 1}); err != nil {
				return 0, err
			}
			roundTrip = min(roundTrip, time.Since(sent))
		}
		// In the second pause some counts expire, in the third all.
		if !rest(ctx, checkRule.Limits[0].Window*time.Duration(3+i)/5) {
			break
		}
	}
	return roundTrip, counts.Reset(ctx, client)
}

// shortestTimeout returns the shortest Config.Timeout of the rules on the store,
// or 0 if there is no rule yet.
func (s *Store) shortestTimeout() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shortest
}

// leastRoundTrips is how many round trips a timeout should last: a decision may
// wait for the one before, and opening a connection takes several.
const leastRoundTrips = 3

// checkTimeouts returns what is wrong with the shortest timeout of the rules, 0
// if there is none yet, where a round trip takes so long.
func checkTimeouts(addr string, roundTrip, shortest time.Duration) error {
	least := leastRoundTrips * roundTrip
	is := fmt.Sprintf("one is %v", shortest)
	if shortest == 0 {
		shortest = core.DefaultTimeout
		is = fmt.Sprintf("the default is %v", shortest)
	}
	if shortest >= least {
		return nil
	}
	// Rounded up, so that the advice is enough.
	least = (least + time.Millisecond - 1).Truncate(time.Millisecond)
	return fmt.Errorf("sash: %s: a round trip takes %v, and Config.Timeout is too short: it should be at least %v, "+
		"%d round trips, and %s: decisions that wait for a connection or for others would get the policy",
		addr, roundTrip.Round(100*time.Microsecond), least, leastRoundTrips, is)
}

// checkInfo returns what is wrong according to the reply to INFO.
func checkInfo(addr, info string) (wrong []error) {
	fields := map[string]string{}
	for line := range strings.Lines(info) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	version := fields["redis_version"]
	major, _, _ := strings.Cut(version, ".")
	if n, err := strconv.Atoi(major); err == nil && n < leastVersion {
		wrong = append(wrong, fmt.Errorf("sash: %s: Redis %s is too old: the script needs version %d or later",
			addr, version, leastVersion))
	}
	if fields["role"] == "slave" {
		wrong = append(wrong, fmt.Errorf("sash: %s: this is a replica, of %s:%s, and cannot count (READONLY): "+
			"give the master's address, or use redis.NewFailoverClient or redis.NewClusterClient",
			addr, fields["master_host"], fields["master_port"]))
	}
	limit, policy := fields["maxmemory"], fields["maxmemory_policy"]
	if limit != "" && limit != "0" && policy != "noeviction" {
		wrong = append(wrong, fmt.Errorf("sash: %s: with maxmemory %s and maxmemory-policy %s Redis deletes counts "+
			"when it is full, and clients get their quota back "+
			"(every key of sash has a TTL, so volatile policies do it too): "+
			"set maxmemory-policy noeviction, or give limits a Redis of their own", addr, limit, policy))
	}
	return wrong
}

// commands are what an ACL user needs, as docs/operations.md has it: the commands
// of the script, and the ones by which go-redis connects.
const commands = "+evalsha +eval +del +time +get +set +setrange +lindex +llen +rpush +ltrim +pexpire " +
	"+select +client|setname +ping +cluster|slots +asking +readonly"

// explain returns err with what an operator can do about it. reached reports
// whether the server has answered before.
func explain(addr string, err error, reached bool) error {
	has := func(text string) bool { return strings.Contains(err.Error(), text) }
	var advice string
	switch {
	case has("NOAUTH"), has("Protocol error: unauthenticated"):
		advice = "the server asks for a password: set Password, and Username for an ACL user, in the client's options"
	case has("WRONGPASS"):
		advice = "the server refuses the user name or the password in the client's options"
	case has("NOPERM"), has("The user executing the script"): // inside a script it has no code
		advice = "the ACL user may not do what a decision needs: allow it " + commands +
			", on keys ~PREFIX:* (PREFIX is that of redisstore.WithPrefix, sash by default)"
	case has("READONLY"):
		advice = "this is a replica and cannot count: give the master's address"
	case has("OOM"):
		advice = "the server is full: raise maxmemory, or give limits a Redis of their own"
	case reached || isReply(err):
		advice = "the server answers, but cannot decide"
	default:
		advice = "the server cannot be reached: is it up, is the address right, is the network open?"
	}
	return fmt.Errorf("sash: %s: %s: %w", addr, advice, err)
}

package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/internal/notice"
)

// findings are what is wrong, and what could not be looked at.
type findings struct {
	mu            sync.Mutex
	wrong, unseen []error
}

// add adds findings, of which some may be nil.
func (f *findings) add(errs ...error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wrong = append(f.wrong, errs...)
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
	if errors.Join(f.wrong...) == nil {
		return nil
	}
	return errors.Join(append(f.wrong, f.unseen...)...)
}

// leastVersion is of Redis: before it, a script that has read the time may not write.
const leastVersion = 5

// leastRoundTrips is how many round trips a timeout should last: a decision may wait for the one before, and a script
// that the server does not know is sent again.
const leastRoundTrips = 3

// checkTimeouts returns what is wrong with the shortest timeout of the rules, 0 if there is none yet, where a round
// trip and a new connection take so long; connecting is 0 if that is not known.
func checkTimeouts(addr string, roundTrip, connecting, shortest time.Duration) error {
	least, which := leastRoundTrips*roundTrip, "one"
	if shortest == 0 {
		shortest, which = core.DefaultTimeout, "the default"
	}
	if shortest >= least {
		return nil
	}
	// Rounded up, so that the advice is enough.
	least = (least + time.Millisecond - 1).Truncate(time.Millisecond)
	cold := ""
	if connecting > 0 {
		cold = fmt.Sprintf("; a new connection takes %v: while there is none, decisions wait for one, and get the policy "+
			"at Config.Timeout", connecting.Round(time.Millisecond))
	}
	return fmt.Errorf("sash: %s: a round trip takes %v, and Config.Timeout is too short: it should be at least %v, "+
		"%d round trips, and %s is %v: decisions that wait for others would get the policy%s",
		addr, roundTrip.Round(100*time.Microsecond), least, leastRoundTrips, which, shortest, cold)
}

// checkInfo returns what is wrong according to the reply to INFO. Some of the errors may be nil.
func checkInfo(addr, info string) (wrong []error) {
	fields := infoFields(info)
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
	if _, crdt := fields["crdt_config_version"]; crdt || fields["role"] == "active-replica" {
		wrong = append(wrong, fmt.Errorf("sash: %s: this is one of several masters of the same data (Active-Active, or "+
			"active-replica of KeyDB): each gives a client its whole limit: give limits a database with one master", addr))
	}
	return append(wrong, checkMemory(addr, fields))
}

// explain returns err with what an operator can do about it. reached reports
// whether the server has answered before.
func explain(addr string, err error, reached bool) error {
	advice := knownRemedy(err)
	switch {
	case advice != "":
	case reached || isReply(err):
		advice = "the server answers, but cannot decide"
	default:
		advice = unreachable
	}
	return fmt.Errorf("sash: %s: %s: %w", addr, advice, err)
}

// noteAnswer is called when the server of a breaker has answered a request by a rule. The first
// time that there is an observer to tell, it looks in the background whether the server evicts.
// node is the server's client, or nil for the program's own one.
func (c *client) noteAnswer(b *breaker, node *redis.Client, rule *core.Binding) {
	if c.joint.unsaid.Load() != nil {
		go c.say(rule)
	}
	if rule.Notice == nil || b.looked.Load() {
		return
	}
	if from := c.informer(node); from != nil && b.looked.CompareAndSwap(false, true) {
		go lookAtMemory(from, b.status.Load().Server, rule)
	}
}

// informer returns the client to ask about a server, or nil if a question might delay a
// decision, or is not certain to reach that server.
func (c *client) informer(node *redis.Client) redis.UniversalClient {
	if node == nil {
		node = c.heeding
	}
	switch {
	case node != nil && node.Options().PoolSize > 1:
		return node
	case node == nil && c.cluster == nil && c.ring == nil:
		return c.rdb
	}
	return nil
}

// lookAtMemory gives a notice if the server evicts. A server that does not answer within the
// timeout of a decision, or refuses INFO, is left alone: the Check of the store says more.
func lookAtMemory(from redis.UniversalClient, addr string, rule *core.Binding) {
	defer func() { _ = recover() }() // of go-redis, at an unreadable reply; there is nothing to tell then
	ctx, cancel := context.WithTimeout(context.Background(), cmp.Or(rule.Timeout, core.DefaultTimeout))
	defer cancel()
	info, err := from.Info(ctx, "memory").Result()
	if err != nil {
		return
	}
	if err := checkMemory(cmp.Or(addr, "the server"), infoFields(info)); err != nil {
		rule.Notice(notice.Evicting, strings.TrimPrefix(err.Error(), "sash: "))
	}
}

// infoFields returns the fields of a reply to INFO.
func infoFields(info string) map[string]string {
	fields := map[string]string{}
	for line := range strings.Lines(info) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	return fields
}

// checkMemory returns what is wrong with the memory of a server according to its INFO, or
// nil.
func checkMemory(addr string, fields map[string]string) error {
	limit, policy := fields["maxmemory"], fields["maxmemory_policy"]
	if limit == "" || limit == "0" || policy == "noeviction" {
		return nil
	}
	return fmt.Errorf("sash: %s: with maxmemory %s and maxmemory-policy %s Redis deletes counts "+
		"when it is full, and clients get their quota back "+
		"(every key of sash has a TTL, so volatile policies do it too): "+
		"set maxmemory-policy noeviction, or give limits a Redis of their own", addr, limit, policy)
}

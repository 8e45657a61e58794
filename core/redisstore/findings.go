package redisstore

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sashlimit/sash/core"
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

// leastRoundTrips is how many round trips a timeout should last: a decision may
// wait for the one before, and opening a connection takes several.
const leastRoundTrips = 3

// checkTimeouts returns what is wrong with the shortest timeout of the rules, 0
// if there is none yet, where a round trip takes so long.
func checkTimeouts(addr string, roundTrip, shortest time.Duration) error {
	least, which := leastRoundTrips*roundTrip, "one"
	if shortest == 0 {
		shortest, which = core.DefaultTimeout, "the default"
	}
	if shortest >= least {
		return nil
	}
	// Rounded up, so that the advice is enough.
	least = (least + time.Millisecond - 1).Truncate(time.Millisecond)
	return fmt.Errorf("sash: %s: a round trip takes %v, and Config.Timeout is too short: it should be at least %v, "+
		"%d round trips, and %s is %v: decisions that wait for a connection or for others would get the policy",
		addr, roundTrip.Round(100*time.Microsecond), least, leastRoundTrips, which, shortest)
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

// commands are what an ACL user needs, as docs/operations.md has it: the commands
// of the script, and the ones by which go-redis connects.
const commands = "+evalsha +eval +del +time +get +set +setrange +lindex +lrange +lset +llen +rpush +ltrim +pexpire " +
	"+select +client|setname +ping +cluster|slots +asking +readonly"

// knownRemedy returns what an operator can do about err, or "" if that is not known.
func knownRemedy(err error) string {
	has := func(text string) bool { return strings.Contains(err.Error(), text) }
	switch {
	case err == nil:
		return ""
	case errors.Is(err, ErrForeign):
		return "another program writes below the prefix of the store: give one of them another, " +
			"or limits a Redis of their own"
	case has("NOAUTH"), has("Protocol error: unauthenticated"):
		return "the server asks for a password: set Password, and Username for an ACL user, in the client's options"
	case has("WRONGPASS"):
		return "the server refuses the user name or the password in the client's options"
	case has("NOPERM"), has("The user executing the script"): // inside a script it has no code
		return "the ACL user may not do what a decision needs: allow it " + commands +
			", on keys ~PREFIX:* (PREFIX is that of redisstore.WithPrefix, sash by default)"
	case has("READONLY"):
		return "this is a replica and cannot count: give the master's address"
	case has("NOREPLICAS"):
		return "the server has fewer replicas than its min-replicas-to-write: mend them, or lower it"
	case has("OOM"):
		return "the server is full: raise maxmemory, or give limits a Redis of their own"
	case has("DB index"), has("SELECT is not allowed"):
		return "the server has no such database: correct DB in the client's options, or the number in the URL"
	case has("tls: "):
		return "the TLS handshake fails: do RootCAs, ServerName and Certificates " +
			"in the client's TLSConfig fit the server?"
	case core.StageOf(err) == core.StageConnect:
		return unreachable
	}
	return ""
}

const unreachable = "the server cannot be reached: is it up, is the address right, is the network open, " +
	"does the server speak TLS where the client does, and only there?"

// remedied returns err with its remedy, if that is known.
func remedied(err error) error {
	if remedy := knownRemedy(err); remedy != "" {
		return core.WithRemedy(remedy, err)
	}
	return err
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

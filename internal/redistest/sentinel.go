package redistest

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// Sentinel is a master with replicas that sentinels watch over.
type Sentinel struct {
	Servers   []*Server // the first master, and its first replicas
	sentinels []*Server
}

// masterName is the sentinels' name for the master.
const masterName = "main"

// StartSentinel starts a master, its replicas, and sentinels, of which a majority
// must agree to a failover. It returns once the replicas are linked to the master
// and every sentinel knows all other sentinels and all replicas.
func StartSentinel(tb testing.TB, replicas, sentinels int) *Sentinel {
	tb.Helper()
	s := &Sentinel{make([]*Server, 1+replicas), make([]*Server, sentinels)}
	forAll(tb, s.Servers, func(i int, _ *Server) (err error) {
		s.Servers[i], err = start(tb, func(string, int) ([]string, error) { return nil, nil })
		return err
	})
	forAll(tb, s.Servers[1:], func(i int, r *Server) error {
		// The option --replicaof would come into force again at a restart.
		if err := r.ask("REPLICAOF", host, s.Servers[0].port).Err(); err != nil {
			return err
		}
		return waitFor("replicas to be linked", func() error {
			info, err := r.ask("INFO", "replication").Text()
			if err == nil && !strings.Contains(info, "master_link_status:up") {
				err = fmt.Errorf("%s is not linked to its master: %s", r.Addr(), info)
			}
			return err
		})
	})

	// The replicas start before the sentinels: a sentinel looks for replicas when
	// it starts, and seldom after that.
	forAll(tb, s.sentinels, func(i int, _ *Server) (err error) {
		if s.sentinels[i], err = start(tb, s.options); err != nil {
			return err
		}
		// With the defaults, a sentinel needs seconds to find the others, and rests for 30 s (tilt) after a busy
		// machine has delayed it.
		return s.sentinels[i].runCommand("SENTINEL DEBUG INFO-PERIOD 500 PING-PERIOD 200 ASK-PERIOD 200 " +
			"PUBLISH-PERIOD 200 " +
			"TILT-PERIOD 1000")
	})
	s.WaitOK(tb)
	return s
}

// options writes the configuration of a sentinel into dir and returns
// the options that name it. The sentinel keeps its state in the same file.
func (s *Sentinel) options(dir string, _ int) ([]string, error) {
	file := filepath.Join(dir, "sentinel.conf")
	text := fmt.Sprintf("sentinel monitor %[1]s %[2]s %[3]d %[4]d\n"+
		"sentinel down-after-milliseconds %[1]s 1000\n"+
		"sentinel failover-timeout %[1]s 3000\n",
		masterName, host, s.Servers[0].port, len(s.sentinels)/2+1)
	return []string{file, "--sentinel"}, os.WriteFile(file, []byte(text), 0o600)
}

// Client returns a failover client with nothing set but the master's name, the
// sentinels' addresses and what set sets, closed by tb's cleanup.
func (s *Sentinel) Client(tb testing.TB, set ...func(*redis.FailoverOptions)) *redis.Client {
	o := &redis.FailoverOptions{MasterName: masterName, SentinelAddrs: addrs(s.sentinels)}
	for _, f := range set {
		f(o)
	}
	c := redis.NewFailoverClient(o)
	tb.Cleanup(func() { c.Close() })
	return c
}

// WaitOK waits until the sentinels agree on a master that can answer, know each other and all
// replicas, and see the replicas that can answer linked to this master. It returns the master.
func (s *Sentinel) WaitOK(tb testing.TB) (master *Server) {
	tb.Helper()
	WaitFor(tb, "the sentinels to agree", func() error {
		master = nil
		for _, sentinel := range s.sentinels {
			m, err := s.masterOf(sentinel)
			if err == nil && master != nil && m != master {
				err = fmt.Errorf("the master is %s, but %s to other sentinels", m.Addr(), master.Addr())
			}
			if err != nil {
				return fmt.Errorf("sentinel %s: %w", sentinel.Addr(), err)
			}
			master = m
		}
		return nil
	})
	return master
}

// masterOf returns the master as a sentinel sees it. The error says what is not as WaitOK wants it.
func (s *Sentinel) masterOf(sentinel *Server) (*Server, error) {
	c := redis.NewSentinelClient(sentinel.admin().Options())
	defer c.Close()
	m, err := c.Master(ctx, masterName).Result()
	if err != nil {
		return nil, err
	}
	replicas, err := c.Replicas(ctx, masterName).Result()
	if err != nil {
		return nil, err
	}
	if want := strconv.Itoa(len(s.sentinels) - 1); m["num-other-sentinels"] != want ||
		len(replicas) < len(s.Servers)-1 {
		return nil, fmt.Errorf("knows %s of %s other sentinels, and %d replicas",
			m["num-other-sentinels"], want, len(replicas))
	}
	master := s.at(m)
	if master == nil || !master.answers() || m["flags"] != "master" {
		return nil, fmt.Errorf("the master %s:%s has the flags %q", m["ip"], m["port"], m["flags"])
	}
	for _, r := range replicas {
		// A sentinel promotes only a replica with these flags and this link.
		if server := s.at(r); server == nil || server.answers() && (r["flags"] != "slave" ||
			r["master-link-status"] != "ok" || r["master-port"] != m["port"]) {
			return nil, fmt.Errorf("the replica %s:%s has the flags %q and the link %q",
				r["ip"], r["port"], r["flags"], r["master-link-status"])
		}
	}
	return master, nil
}

// at returns the server that has the address of an entry of a sentinel, or nil.
func (s *Sentinel) at(entry map[string]string) *Server {
	addr := net.JoinHostPort(entry["ip"], entry["port"])
	return find(s.Servers, func(s *Server) bool { return s.Addr() == addr })
}

package redistest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"
)

// Sentinel is a master with replicas that sentinels watch over.
type Sentinel struct {
	MasterName string    // what the sentinels call the master
	Servers    []*Server // the first master, and its first replicas
	Sentinels  []*Server

	tb testing.TB
}

// StartSentinel starts a master, its replicas, and sentinels, of which a majority
// must agree to a failover. It returns once the replicas are linked to the master
// and every sentinel knows all other sentinels and all replicas.
func StartSentinel(tb testing.TB, replicas, sentinels int) *Sentinel {
	tb.Helper()
	s := &Sentinel{
		tb:         tb,
		MasterName: "main",
		Servers:    make([]*Server, 1+replicas),
		Sentinels:  make([]*Server, sentinels),
	}
	together(tb, s.Servers, func(i int, _ *Server) (err error) {
		s.Servers[i], err = start(tb, func(string, int) ([]string, error) { return nil, nil })
		return err
	})
	master := s.Servers[0]
	together(tb, s.Servers[1:], func(i int, r *Server) error {
		admin := r.admin()
		defer admin.Close()
		// The option --replicaof would come into force again at a restart.
		if err := admin.Do(ctx, "REPLICAOF", host, master.port).Err(); err != nil {
			return err
		}
		return waitFor("replicas to be linked", func() error { return linked(r, master) })
	})

	// The replicas start before the sentinels: a sentinel looks for replicas when
	// it starts, and seldom after that.
	together(tb, s.Sentinels, func(i int, _ *Server) (err error) {
		if s.Sentinels[i], err = start(tb, s.sentinelOptions); err != nil {
			return err
		}
		return shortenPeriods(s.Sentinels[i])
	})
	s.WaitOK(tb)
	return s
}

// sentinelOptions writes the configuration of a sentinel into dir and returns
// the options that name it. The sentinel keeps its state in the same file.
func (s *Sentinel) sentinelOptions(dir string, _ int) ([]string, error) {
	file := filepath.Join(dir, "sentinel.conf")
	text := fmt.Sprintf("sentinel monitor %[1]s %[2]s %[3]d %[4]d\n"+
		"sentinel down-after-milliseconds %[1]s 1000\n"+
		"sentinel failover-timeout %[1]s 3000\n",
		s.MasterName, host, s.Servers[0].port, len(s.Sentinels)/2+1)
	return []string{file, "--sentinel"}, os.WriteFile(file, []byte(text), 0o600)
}

// shortenPeriods sets a sentinel's periods, in milliseconds. With the defaults a
// sentinel needs seconds to find the other sentinels, and rests for 30 s (tilt)
// after a busy machine has delayed it.
func shortenPeriods(sentinel *Server) error {
	admin := sentinel.admin()
	defer admin.Close()
	return admin.Do(ctx, "SENTINEL", "DEBUG",
		"INFO-PERIOD", 500, "PING-PERIOD", 200, "ASK-PERIOD", 200, "PUBLISH-PERIOD", 200, "TILT-PERIOD", 1000).Err()
}

// SentinelAddrs returns the addresses of the sentinels.
func (s *Sentinel) SentinelAddrs() []string { return addrs(s.Sentinels) }

// Client returns a failover client with nothing set but the master's name and
// the sentinels' addresses, closed by tb's cleanup.
func (s *Sentinel) Client(tb testing.TB) *redis.Client {
	c := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: s.MasterName, SentinelAddrs: s.SentinelAddrs()})
	tb.Cleanup(func() { c.Close() })
	return c
}

// Master returns the master as the sentinels see it. After the master's death
// Master returns the dead server until the sentinels have promoted a replica.
func (s *Sentinel) Master() *Server {
	s.tb.Helper()
	var newest watch
	for _, sentinel := range s.Sentinels {
		if !sentinel.answers() {
			continue
		}
		w, err := s.watch(sentinel)
		if err != nil {
			s.tb.Fatal(err)
		}
		if newest.master == nil || w.epoch > newest.epoch {
			newest = w
		}
	}
	if newest.master == nil {
		s.tb.Fatal("redistest: no sentinel can answer")
	}
	return newest.master
}

// Replicas returns the servers that are not the master.
func (s *Sentinel) Replicas() []*Server {
	s.tb.Helper()
	master := s.Master()
	return slices.DeleteFunc(slices.Clone(s.Servers), func(r *Server) bool { return r == master })
}

// WaitOK waits until the sentinels that can answer agree on a master that can
// answer, and know all other sentinels and all replicas, and until the replicas
// that can answer are linked to this master.
func (s *Sentinel) WaitOK(tb testing.TB) {
	tb.Helper()
	WaitFor(tb, "the sentinels to agree", func() error {
		master, err := s.agreedMaster()
		if err != nil {
			return err
		}
		for _, r := range s.Servers {
			if r == master || !r.answers() {
				continue
			}
			if err := linked(r, master); err != nil {
				return err
			}
		}
		return nil
	})
}

// agreedMaster returns the master on which all sentinels that can answer agree.
func (s *Sentinel) agreedMaster() (master *Server, err error) {
	for _, sentinel := range s.Sentinels {
		if !sentinel.answers() {
			continue
		}
		w, err := s.watch(sentinel)
		if err == nil {
			err = s.check(w)
		}
		if err == nil && master != nil && w.master != master {
			err = fmt.Errorf("the master is %s, but %s to other sentinels", w.master.Addr(), master.Addr())
		}
		if err != nil {
			return nil, fmt.Errorf("sentinel %s: %w", sentinel.Addr(), err)
		}
		master = w.master
	}
	if master == nil {
		return nil, errors.New("no sentinel can answer")
	}
	return master, nil
}

// watch is the state of the servers as one sentinel sees it.
type watch struct {
	master    *Server
	flags     string // of the master
	epoch     int
	sentinels int                          // number of other sentinels
	replicas  map[string]map[string]string // fields of each replica, by address
}

// watch asks one sentinel for the state of the servers.
func (s *Sentinel) watch(sentinel *Server) (watch, error) {
	c := redis.NewSentinelClient(sentinel.admin().Options())
	defer c.Close()
	var w watch
	m, err := c.Master(ctx, s.MasterName).Result()
	if err != nil {
		return w, err
	}
	i := slices.IndexFunc(s.Servers, func(s *Server) bool { return s.Addr() == net.JoinHostPort(m["ip"], m["port"]) })
	if i < 0 {
		return w, fmt.Errorf("unknown master %s:%s", m["ip"], m["port"])
	}
	w.master, w.flags = s.Servers[i], m["flags"]
	if w.epoch, err = strconv.Atoi(m["config-epoch"]); err != nil {
		return w, err
	}
	if w.sentinels, err = strconv.Atoi(m["num-other-sentinels"]); err != nil {
		return w, err
	}
	replicas, err := c.Replicas(ctx, s.MasterName).Result()
	w.replicas = make(map[string]map[string]string, len(replicas))
	for _, r := range replicas {
		w.replicas[net.JoinHostPort(r["ip"], r["port"])] = r
	}
	return w, err
}

// check returns an error if a sentinel does not know all other sentinels and all
// replicas, or sees as down the master or a replica that can answer.
func (s *Sentinel) check(w watch) error {
	if !w.master.answers() || w.flags != "master" {
		return fmt.Errorf("the master %s has the flags %q", w.master.Addr(), w.flags)
	}
	if want := len(s.Sentinels) - 1; w.sentinels != want {
		return fmt.Errorf("knows %d of %d other sentinels", w.sentinels, want)
	}
	for _, server := range s.Servers {
		if server == w.master {
			continue
		}
		r, known := w.replicas[server.Addr()]
		if !known {
			return fmt.Errorf("does not know replica %s", server.Addr())
		}
		// A sentinel promotes only a replica with these flags and this link.
		if server.answers() && (r["flags"] != "slave" || r["master-link-status"] != "ok") {
			return fmt.Errorf("the replica %s has the flags %q and the link %q",
				server.Addr(), r["flags"], r["master-link-status"])
		}
	}
	return nil
}

// linked returns an error if replica does not follow master, or has no link to it.
func linked(replica, master *Server) error {
	admin := replica.admin()
	defer admin.Close()
	info, err := admin.Info(ctx, "replication").Result()
	if err != nil {
		return err
	}
	if port := field(info, "master_port"); port != strconv.Itoa(master.port) {
		return fmt.Errorf("%s follows port %q, not %d", replica.Addr(), port, master.port)
	}
	if link := field(info, "master_link_status"); link != "up" {
		return fmt.Errorf("the link from %s to its master is %q", replica.Addr(), link)
	}
	return nil
}

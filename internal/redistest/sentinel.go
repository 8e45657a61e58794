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
	Servers    []*Server // the master, as it was at first, and its replicas
	Sentinels  []*Server

	tb testing.TB
}

// StartSentinel starts a master, replicas of it, and sentinels, a majority of
// which agrees to a failover. It returns once the replicas are linked and every
// sentinel knows all others and all replicas.
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
		// Not as an option: it would come into force again at a restart.
		if err := admin.Do(ctx, "REPLICAOF", host, master.port).Err(); err != nil {
			return err
		}
		return waitFor("replicas to be linked", func() error { return linked(r, master) })
	})

	// The replicas come first: a sentinel looks for them when it starts and
	// then only now and again.
	together(tb, s.Sentinels, func(i int, _ *Server) (err error) {
		s.Sentinels[i], err = start(tb, func(dir string, _ int) ([]string, error) {
			file := filepath.Join(dir, "sentinel.conf") // it keeps its state there
			text := fmt.Sprintf("sentinel monitor %[1]s %[2]s %[3]d %[4]d\n"+
				"sentinel down-after-milliseconds %[1]s 1000\n"+
				"sentinel failover-timeout %[1]s 3000\n", s.MasterName, host, master.port, sentinels/2+1)
			return []string{file, "--sentinel"}, os.WriteFile(file, []byte(text), 0o600)
		})
		if err != nil {
			return err
		}
		return s.hurry(s.Sentinels[i])
	})
	s.WaitOK(tb)
	return s
}

// hurry shortens a sentinel's periods, in milliseconds: with the usual ones it
// needs seconds to find the others, and rests for 30 s (tilt) when a busy
// machine has held it up.
func (s *Sentinel) hurry(sentinel *Server) error {
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

// Master returns the master as the sentinels see it: after its death the dead
// server, until they have made a replica the master.
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

// WaitOK waits until all is well: the sentinels that can answer agree on a
// master that can answer too, they know each other and all replicas, and those
// replicas that can answer are linked to that master.
func (s *Sentinel) WaitOK(tb testing.TB) {
	tb.Helper()
	WaitFor(tb, "the sentinels to agree", func() error {
		var master *Server
		for _, sentinel := range s.Sentinels {
			if !sentinel.answers() {
				continue
			}
			w, err := s.watch(sentinel)
			if err == nil {
				err = s.ok(w)
			}
			if err == nil && master != nil && w.master != master {
				err = fmt.Errorf("the master is %s, but %s to others", w.master.Addr(), master.Addr())
			}
			if err != nil {
				return fmt.Errorf("sentinel %s: %w", sentinel.Addr(), err)
			}
			master = w.master
		}
		if master == nil {
			return errors.New("no sentinel can answer")
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

// watch is what one sentinel sees.
type watch struct {
	master    *Server
	flags     string
	epoch     int
	sentinels int                          // the others
	replicas  map[string]map[string]string // by address
}

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

// ok says what is wrong with what a sentinel sees.
func (s *Sentinel) ok(w watch) error {
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
		// Without this the sentinel would not promote it.
		if server.answers() && (r["flags"] != "slave" || r["master-link-status"] != "ok") {
			return fmt.Errorf("the replica %s has the flags %q and the link %q", server.Addr(), r["flags"], r["master-link-status"])
		}
	}
	return nil
}

// linked says why replica does not follow master.
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

package redistest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
)

// Slots is the number of hash slots of a cluster.
const Slots = 16384

// nodeTimeout, in milliseconds, is how long a node may be silent before the
// others take it for dead: short, so that failovers are, but not so short that a
// busy machine causes them.
const nodeTimeout = 1500

// Cluster is a Redis Cluster.
type Cluster struct {
	// Servers are the nodes: first those that started as masters, then the
	// replicas, the i-th of them a replica of master i modulo the masters.
	Servers []*Server

	tb testing.TB
}

// StartCluster starts a cluster with the slots spread evenly over the masters
// and that many replicas for each of them. It returns once every node knows
// every slot and replica and says that the cluster is up, which takes 2 s: a
// master that has just started does not say so earlier.
func StartCluster(tb testing.TB, masters, replicas int) *Cluster {
	tb.Helper()
	c := &Cluster{tb: tb, Servers: make([]*Server, masters*(1+replicas))}
	together(tb, c.Servers, func(i int, _ *Server) (err error) {
		c.Servers[i], err = start(tb, clusterNode)
		return err
	})

	together(tb, c.Servers, func(i int, s *Server) error {
		admin := s.admin()
		defer admin.Close()
		var err error
		if s.id, err = admin.Do(ctx, "CLUSTER", "MYID").Text(); err != nil {
			return err
		}
		if i >= masters {
			return nil
		}
		// Nodes that start with the same epoch need time to settle it.
		if err := admin.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err(); err != nil {
			return err
		}
		first, next := i*Slots/masters, (i+1)*Slots/masters
		return admin.ClusterAddSlotsRange(ctx, first, next-1).Err()
	})
	// Everybody meets everybody: gossip would get there too, but later.
	together(tb, c.Servers, func(i int, s *Server) error {
		admin := s.admin()
		defer admin.Close()
		for _, other := range c.Servers[:i] {
			bus := other.args[slices.Index(other.args, "--cluster-port")+1]
			if err := admin.Do(ctx, "CLUSTER", "MEET", host, other.port, bus).Err(); err != nil {
				return err
			}
		}
		return nil
	})
	together(tb, c.Servers[masters:], func(i int, s *Server) error {
		admin := s.admin()
		defer admin.Close()
		return waitFor(s.Addr()+" to know its master", func() error {
			return admin.ClusterReplicate(ctx, c.Servers[i%masters].id).Err()
		})
	})
	c.WaitOK(tb)
	return c
}

// clusterNode is the options of one node.
func clusterNode(dir string, port int) ([]string, error) {
	bus, err := freePort() // by default port+10000, which may be taken
	return []string{
		"--cluster-enabled", "yes",
		"--cluster-port", strconv.Itoa(bus),
		"--cluster-announce-ip", host,
		"--cluster-node-timeout", strconv.Itoa(nodeTimeout),
		// A replica takes over however long it had no link to its master, and
		// stays with the master that it was given.
		"--cluster-replica-validity-factor", "0",
		"--cluster-allow-replica-migration", "no",
	}, err
}

// Addrs returns the addresses of all nodes.
func (c *Cluster) Addrs() []string { return addrs(c.Servers) }

// Client returns a cluster client with nothing set but the addresses, closed by
// tb's cleanup.
func (c *Cluster) Client(tb testing.TB) *redis.ClusterClient {
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs()})
	tb.Cleanup(func() { client.Close() })
	return client
}

// MasterOf returns the master of key's slot as the nodes that answer see it:
// after a master's death the dead server, until a replica has taken over.
func (c *Cluster) MasterOf(key string) *Server {
	c.tb.Helper()
	views, err := c.views()
	if err != nil {
		c.tb.Fatal(err)
	}
	var best node
	for _, v := range views {
		for _, n := range v.nodes {
			if n.owns(Slot(key)) && (best.server == nil || n.epoch > best.epoch) {
				best = n
			}
		}
	}
	if best.server == nil {
		c.tb.Fatalf("redistest: nobody owns slot %d of key %q", Slot(key), key)
	}
	return best.server
}

// WaitOK waits until the cluster is healed: every slot belongs to a server that
// can answer, every such server says that the cluster is up, all see it alike,
// and every replica among them is linked to its master. A server that is dead or
// paused is in nobody's way as long as it owns no slots.
func (c *Cluster) WaitOK(tb testing.TB) {
	tb.Helper()
	WaitFor(tb, "the cluster to be up", func() error {
		views, err := c.views()
		if err != nil {
			return err
		}
		for _, v := range views {
			if err := v.ok(views[0]); err != nil {
				return fmt.Errorf("%s: %w", v.server.Addr(), err)
			}
		}
		return nil
	})
}

// view is the cluster as one node sees it.
type view struct {
	server *Server
	state  string // cluster_state
	linked string // master_link_status; empty for a master
	nodes  map[*Server]node
}

// node is one node in a view.
type node struct {
	server *Server
	master string // ID; "-" for a master
	failed bool   // or suspected to be
	epoch  int64
	slots  [][2]int // first and last
}

func (n node) owns(slot int) bool {
	return slices.ContainsFunc(n.slots, func(r [2]int) bool { return r[0] <= slot && slot <= r[1] })
}

// ok says what is wrong with a view, or how it differs from the first.
func (v view) ok(first view) error {
	if v.state != "ok" {
		return fmt.Errorf("cluster_state is %q", v.state)
	}
	if v.linked != "" && v.linked != "up" {
		return fmt.Errorf("the link to the master is %q", v.linked)
	}
	for s, n := range v.nodes {
		if !s.answers() {
			if len(n.slots) > 0 {
				return fmt.Errorf("%s owns slots and cannot answer", s.Addr())
			}
			continue
		}
		if n.failed {
			return fmt.Errorf("%s is taken for dead", s.Addr())
		}
		if o := first.nodes[s]; n.master != o.master || !slices.Equal(n.slots, o.slots) {
			return fmt.Errorf("it has %s own %v of master %s, but %s has it own %v of master %s",
				s.Addr(), n.slots, n.master, first.server.Addr(), o.slots, o.master)
		}
	}
	return nil
}

// views asks all nodes that can answer.
func (c *Cluster) views() ([]view, error) {
	var all []view
	for _, s := range c.Servers {
		if !s.answers() {
			continue
		}
		v, err := c.view(s)
		if err != nil {
			return nil, fmt.Errorf("redistest: cluster node %s: %w", s.Addr(), err)
		}
		all = append(all, v)
	}
	if len(all) == 0 {
		return nil, errors.New("redistest: no node of the cluster can answer")
	}
	return all, nil
}

func (c *Cluster) view(s *Server) (view, error) {
	admin := s.admin()
	defer admin.Close()
	v := view{server: s, nodes: map[*Server]node{}}
	info, err := admin.ClusterInfo(ctx).Result()
	if err != nil {
		return v, err
	}
	v.state = field(info, "cluster_state")
	if info, err = admin.Info(ctx, "replication").Result(); err != nil {
		return v, err
	}
	v.linked = field(info, "master_link_status")
	lines, err := admin.ClusterNodes(ctx).Result()
	if err != nil {
		return v, err
	}
	for line := range strings.Lines(lines) {
		// id address flags master ping-sent pong-received epoch link slot ...
		f := strings.Fields(line)
		i := slices.IndexFunc(c.Servers, func(s *Server) bool { return s.id == f[0] })
		if i < 0 {
			continue // a handshake goes on, under a name for the time being
		}
		n := node{server: c.Servers[i], master: f[3]}
		flags := strings.Split(f[2], ",")
		n.failed = slices.Contains(flags, "fail") || slices.Contains(flags, "fail?")
		if n.epoch, err = strconv.ParseInt(f[6], 10, 64); err != nil {
			return v, err
		}
		for _, slots := range f[8:] {
			if strings.HasPrefix(slots, "[") {
				continue // on its way elsewhere; still owned
			}
			var r [2]int
			first, last, several := strings.Cut(slots, "-")
			if r[0], err = strconv.Atoi(first); err != nil {
				return v, err
			}
			if r[1] = r[0]; several {
				if r[1], err = strconv.Atoi(last); err != nil {
					return v, err
				}
			}
			n.slots = append(n.slots, r)
		}
		v.nodes[n.server] = n
	}
	if len(v.nodes) < len(c.Servers) {
		return v, fmt.Errorf("knows %d of %d nodes", len(v.nodes), len(c.Servers))
	}
	return v, nil
}

// ctx bounds nothing: the clients that it is used with have timeouts.
var ctx = context.Background()

// together does f for all servers at once and fails the test with all errors.
func together(tb testing.TB, servers []*Server, f func(i int, s *Server) error) {
	tb.Helper()
	errs := make([]error, len(servers))
	var wg sync.WaitGroup
	for i, s := range servers {
		wg.Go(func() { errs[i] = f(i, s) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		tb.Fatal(err)
	}
}

func addrs(servers []*Server) []string {
	a := make([]string, len(servers))
	for i, s := range servers {
		a[i] = s.Addr()
	}
	return a
}

// field returns the value of a "name:value" line of an INFO reply.
func field(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

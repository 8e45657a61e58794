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

// nodeTimeout is the time in milliseconds after which a silent node counts as
// dead. A short timeout makes failovers quick; a shorter one would let a busy
// machine cause them.
const nodeTimeout = 1500

// Cluster is a Redis Cluster.
type Cluster struct {
	// Servers are the nodes. The nodes that started as masters come first. After
	// them come the replicas: the i-th replica belongs to master i modulo the
	// number of masters.
	Servers []*Server

	tb testing.TB
}

// StartCluster starts a cluster with the slots spread evenly over the masters.
// Each master gets the given number of replicas. StartCluster returns once every
// node knows every slot and replica and says that the cluster is up. This takes
// 2 s: a master that has just started does not report the cluster as up earlier.
func StartCluster(tb testing.TB, masters, replicas int) *Cluster {
	tb.Helper()
	c := &Cluster{tb: tb, Servers: make([]*Server, masters*(1+replicas))}
	together(tb, c.Servers, func(i int, _ *Server) (err error) {
		c.Servers[i], err = start(tb, clusterNode)
		return err
	})

	together(tb, c.Servers, func(i int, s *Server) error { return s.joinCluster(i, masters) })
	// Every node meets every other node: gossip would introduce them too, but later.
	together(tb, c.Servers, func(i int, s *Server) error { return s.meet(c.Servers[:i]) })
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

// joinCluster learns the node's ID. If the i-th node is a master, joinCluster
// also gives it its epoch and its share of the slots.
func (s *Server) joinCluster(i, masters int) (err error) {
	admin := s.admin()
	defer admin.Close()
	if s.id, err = admin.Do(ctx, "CLUSTER", "MYID").Text(); err != nil {
		return err
	}
	if i >= masters {
		return nil
	}
	// Nodes that start with the same epoch need time to agree on different ones.
	if err := admin.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err(); err != nil {
		return err
	}
	first, next := i*Slots/masters, (i+1)*Slots/masters
	return admin.ClusterAddSlotsRange(ctx, first, next-1).Err()
}

// meet introduces the node to other nodes of its cluster.
func (s *Server) meet(others []*Server) error {
	admin := s.admin()
	defer admin.Close()
	for _, other := range others {
		bus := other.args[slices.Index(other.args, "--cluster-port")+1]
		if err := admin.Do(ctx, "CLUSTER", "MEET", host, other.port, bus).Err(); err != nil {
			return err
		}
	}
	return nil
}

// clusterNode returns the options of one node.
func clusterNode(dir string, port int) ([]string, error) {
	bus, err := FreePort() // the default is port+10000, which may be taken
	return []string{
		"--cluster-enabled", "yes",
		"--cluster-port", strconv.Itoa(bus),
		"--cluster-announce-ip", host,
		"--cluster-node-timeout", strconv.Itoa(nodeTimeout),
		// A replica takes over even if its link to the master was down for long,
		// and no replica moves to another master.
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

// MasterOf returns the master of key's slot as the nodes that answer see it.
// After a master's death MasterOf returns the dead server until a replica has
// taken over.
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
		c.tb.Fatalf("redistest: no node owns slot %d of key %q", Slot(key), key)
	}
	return best.server
}

// WaitOK waits until the cluster is healed: every slot belongs to a server that
// can answer; all servers that can answer report the cluster as up, and agree
// about the owners of slots and the masters of replicas; and every replica that
// can answer is linked to its master. A dead or paused server may remain if it
// owns no slots.
func (c *Cluster) WaitOK(tb testing.TB) {
	tb.Helper()
	WaitFor(tb, "the cluster to be up", func() error {
		views, err := c.views()
		if err != nil {
			return err
		}
		for _, v := range views {
			if err := v.check(views[0]); err != nil {
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
	failed bool   // dead, or suspected to be
	epoch  int64
	slots  [][2]int // ranges: first and last slot
}

// owns reports whether the node owns the slot.
func (n node) owns(slot int) bool {
	return slices.ContainsFunc(n.slots, func(r [2]int) bool { return r[0] <= slot && slot <= r[1] })
}

// check returns an error if the cluster is not healed in this view, or if this
// view differs from the first one.
func (v view) check(first view) error {
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
			return fmt.Errorf("it takes %s for dead", s.Addr())
		}
		if o := first.nodes[s]; n.master != o.master || !slices.Equal(n.slots, o.slots) {
			return fmt.Errorf("it has %s own %v of master %s, but %s has it own %v of master %s",
				s.Addr(), n.slots, n.master, first.server.Addr(), o.slots, o.master)
		}
	}
	return nil
}

// views returns the views of all nodes that can answer.
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

// view asks one node how it sees the cluster.
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
		n, err := c.parseNode(strings.Fields(line))
		if err != nil {
			return v, err
		}
		if n.server != nil {
			v.nodes[n.server] = n
		}
	}
	if len(v.nodes) < len(c.Servers) {
		return v, fmt.Errorf("knows %d of %d nodes", len(v.nodes), len(c.Servers))
	}
	return v, nil
}

// parseNode reads the fields of a line of CLUSTER NODES: id, address, flags,
// master, ping-sent, pong-received, epoch, link, slots. The node has no server
// while a handshake goes on, since its ID is a temporary one.
func (c *Cluster) parseNode(fields []string) (n node, err error) {
	i := slices.IndexFunc(c.Servers, func(s *Server) bool { return s.id == fields[0] })
	if i < 0 {
		return node{}, nil
	}
	n = node{server: c.Servers[i], master: fields[3]}
	flags := strings.Split(fields[2], ",")
	n.failed = slices.Contains(flags, "fail") || slices.Contains(flags, "fail?")
	if n.epoch, err = strconv.ParseInt(fields[6], 10, 64); err != nil {
		return n, err
	}
	for _, slots := range fields[8:] {
		if strings.HasPrefix(slots, "[") {
			continue // a slot in migration: the ranges alone tell its owner
		}
		r, err := parseSlots(slots)
		if err != nil {
			return n, err
		}
		n.slots = append(n.slots, r)
	}
	return n, nil
}

// parseSlots reads a range of slots, such as 0-5460, or a single slot.
func parseSlots(text string) (r [2]int, err error) {
	first, last, several := strings.Cut(text, "-")
	if !several {
		last = first
	}
	if r[0], err = strconv.Atoi(first); err != nil {
		return r, err
	}
	r[1], err = strconv.Atoi(last)
	return r, err
}

// ctx has no deadline: the clients that use it have timeouts.
var ctx = context.Background()

// together calls f for all servers at once and fails the test with all errors.
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

// addrs returns the addresses of the servers.
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

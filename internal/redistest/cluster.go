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

// slots is the number of hash slots of a cluster.
const slots = 16384

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
	forAll(tb, c.Servers, func(i int, _ *Server) (err error) {
		c.Servers[i], err = start(tb, clusterNode)
		return err
	})

	forAll(tb, c.Servers, func(i int, s *Server) error { return s.joinCluster(i, masters) })
	// Every node meets every other node: gossip would introduce them too, but later.
	forAll(tb, c.Servers, func(i int, s *Server) error { return s.meet(c.Servers[:i]) })
	forAll(tb, c.Servers[masters:], func(i int, s *Server) error {
		return waitFor(s.Addr()+" to know its master", func() error {
			return s.ask("CLUSTER", "REPLICATE", c.Servers[i%masters].id).Err()
		})
	})
	c.WaitOK(tb)
	return c
}

// joinCluster learns the node's ID. If the i-th node is a master, joinCluster
// also gives it its epoch and its share of the slots.
func (s *Server) joinCluster(i, masters int) (err error) {
	if s.id, err = s.ask("CLUSTER", "MYID").Text(); err != nil {
		return err
	}
	if i >= masters {
		return nil
	}
	// Nodes that start with the same epoch need time to agree on different ones.
	if err := s.ask("CLUSTER", "SET-CONFIG-EPOCH", i+1).Err(); err != nil {
		return err
	}
	first, next := i*slots/masters, (i+1)*slots/masters
	return s.ask("CLUSTER", "ADDSLOTSRANGE", first, next-1).Err()
}

// meet introduces the node to other nodes of its cluster.
func (s *Server) meet(others []*Server) error {
	for _, other := range others {
		bus := other.args[slices.Index(other.args, "--cluster-port")+1]
		if err := s.ask("CLUSTER", "MEET", host, other.port, bus).Err(); err != nil {
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

// Slot returns the hash slot of key, as the first node says.
func (c *Cluster) Slot(key string) int {
	c.tb.Helper()
	slot, err := c.Servers[0].ask("CLUSTER", "KEYSLOT", key).Int()
	if err != nil {
		c.tb.Fatal(err)
	}
	return slot
}

// MasterOf returns the master of key's slot as the first node sees it.
func (c *Cluster) MasterOf(key string) *Server {
	c.tb.Helper()
	v, err := c.view(c.Servers[0])
	if err != nil {
		c.tb.Fatal(err)
	}
	return v.owner(c.Slot(key))
}

// WaitOK waits until the cluster is healed: every slot belongs to a server that
// can answer; all servers that can answer report the cluster as up, own slots or replicate
// their owner, and agree about the owners of slots, the replicas and which servers are dead;
// and every replica that can answer is linked to its master.
func (c *Cluster) WaitOK(tb testing.TB) {
	tb.Helper()
	WaitFor(tb, "the cluster to be up", func() error {
		views, err := c.views()
		if err != nil {
			return err
		}
		for _, v := range views {
			if err := c.check(v); err != nil {
				return fmt.Errorf("%s: %w", v.server.Addr(), err)
			}
			if got, want := fmt.Sprint(v.slots), fmt.Sprint(views[0].slots); got != want {
				return fmt.Errorf("%s sees %s, and %s sees %s", v.server.Addr(), got, views[0].server.Addr(), want)
			}
		}
		return nil
	})
}

// view is the cluster as one node sees it.
type view struct {
	cluster *Cluster
	server  *Server
	says    string              // what INFO says of the cluster and of replication
	slots   []redis.ClusterSlot // with the master first, and the replicas that have not failed
}

// owner returns the master of a slot, or nil if there is none.
func (v view) owner(slot int) *Server {
	for _, r := range v.slots {
		if r.Start <= slot && slot <= r.End {
			return v.cluster.byID(r.Nodes[0].ID)
		}
	}
	return nil
}

func (c *Cluster) byID(id string) *Server {
	return find(c.Servers, func(s *Server) bool { return s.id == id })
}

// check returns an error if the cluster is not healed in this view.
func (c *Cluster) check(v view) error {
	if !strings.Contains(v.says, "cluster_state:ok") || strings.Contains(v.says, "master_link_status:down") {
		return fmt.Errorf("it is not up, or not linked to its master: %s", v.says)
	}
	owned, listed := 0, map[string]bool{}
	for _, r := range v.slots {
		owned += r.End - r.Start + 1
		for _, n := range r.Nodes {
			listed[n.ID] = true
		}
	}
	for _, s := range c.Servers {
		if s.answers() != listed[s.id] {
			return fmt.Errorf("%s can answer: %v, and is listed: %v", s.Addr(), s.answers(), listed[s.id])
		}
	}
	if owned < slots {
		return fmt.Errorf("it knows the owners of %d slots", owned)
	}
	return nil
}

// views returns the views of all nodes that can answer.
func (c *Cluster) views() (all []view, err error) {
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
	return all, nil
}

// view returns the cluster as one node sees it. Slots and replicas are in an order that all nodes share.
func (c *Cluster) view(s *Server) (view, error) {
	admin := s.admin()
	defer admin.Close()
	info, replication := admin.ClusterInfo(ctx), admin.Info(ctx, "replication")
	slots := redis.Cmdable(admin).ClusterSlots(ctx) // CLUSTER SHARDS of some servers keeps shards without slots
	v := view{cluster: c, server: s, says: info.Val() + replication.Val(), slots: slots.Val()}
	for _, r := range v.slots {
		slices.SortFunc(r.Nodes[1:], func(a, b redis.ClusterNode) int { return strings.Compare(a.ID, b.ID) })
	}
	slices.SortFunc(v.slots, func(a, b redis.ClusterSlot) int { return a.Start - b.Start })
	return v, errors.Join(info.Err(), replication.Err(), slots.Err())
}

// ctx has no deadline: the clients that use it have timeouts.
var ctx = context.Background()

// forAll calls f for all servers at once and fails the test with all errors.
func forAll(tb testing.TB, servers []*Server, f func(i int, s *Server) error) {
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

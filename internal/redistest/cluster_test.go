package redistest

import (
	"testing"

	"github.com/redis/go-redis/v9"
)

// TestClusterCheck: a cluster is healed if a server that answers owns each slot, and all that answer are listed.
func TestClusterCheck(t *testing.T) {
	silent, up := &Server{id: "a"}, &Server{id: "b", proc: &process{exited: make(chan struct{})}}
	c := &Cluster{Servers: []*Server{silent, up}}
	was, is := redis.ClusterNode{ID: "a"}, redis.ClusterNode{ID: "b"}
	for name, test := range map[string]struct {
		last   int
		nodes  []redis.ClusterNode
		healed bool
	}{
		"the other took over":             {slots - 1, []redis.ClusterNode{is}, true},
		"some slots have no owner":        {slots - 2, []redis.ClusterNode{is}, false},
		"a silent replica is not dead":    {slots - 1, []redis.ClusterNode{is, was}, false},
		"a silent master is not replaced": {slots - 1, []redis.ClusterNode{was}, false},
	} {
		v := view{cluster: c, server: up, says: "cluster_state:ok",
			slots: []redis.ClusterSlot{{End: test.last, Nodes: test.nodes}}}
		if err := c.check(v); (err == nil) != test.healed || v.owner(1) != c.byID(test.nodes[0].ID) {
			t.Errorf("%s: %v, and slot 1 belongs to %v", name, err, v.owner(1))
		}
	}
}

package redistest

import (
	"testing"

	"github.com/redis/go-redis/v9"
)

// TestShards: the master of a slot is found in what each version answers to CLUSTER SHARDS.
func TestShards(t *testing.T) {
	failed, over := &Server{id: "a"}, &Server{id: "b", proc: &process{exited: make(chan struct{})}}
	c := &Cluster{Servers: []*Server{failed, over}}
	was := redis.Node{ID: "a", Role: "master", Health: "fail"}
	is := redis.Node{ID: "b", Role: "master", Health: "online"}
	all := []redis.SlotRange{{Start: 0, End: slots - 1}}
	for name, shards := range map[string][]redis.ClusterShard{
		"Redis 7.0: a failed master is a shard of its own": {
			{Nodes: []redis.Node{was}}, {Slots: all, Nodes: []redis.Node{is}},
		},
		"Redis 7.2: it stays, with its role": {{Slots: all, Nodes: []redis.Node{was, is}}},
	} {
		v := view{cluster: c, server: over, says: "cluster_state:ok", shards: shards}
		if err, owner := c.check(v), v.owner(1); err != nil || owner != over {
			t.Errorf("%s: the owner is %+v, %v", name, owner, err)
		}
	}
}

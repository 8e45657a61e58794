package redistest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
)

// TestShards: the master of a slot is found in what each version answers to CLUSTER SHARDS.
func TestShards(t *testing.T) {
	t.Parallel()
	node := func(id, role, health string) []any {
		return []any{"id", id, "port", 1, "role", role, "replication-offset", 1, "health", health}
	}
	all := []any{0, slots - 1}
	for name, shards := range map[string][]any{
		"Redis 7.0: a failed master is a shard of its own": {
			[]any{"slots", []any{}, "nodes", []any{node("a", "master", "fail")}},
			[]any{"slots", all, "nodes", []any{node("b", "master", "online")}},
		},
		"Redis 7.2: it stays, with its role": {
			[]any{"slots", all, "nodes", []any{node("a", "master", "fail"), node("b", "master", "online")}},
		},
		"Valkey 9.1: an empty shard, and a field more": {
			[]any{"id", "s", "slots", []any{}, "nodes", []any{}},
			[]any{"id", "t", "slots", all, "nodes", []any{node("a", "master", "fail"), node("b", "master", "online")}},
		},
	} {
		addr := Serve(t, func(c net.Conn) {
			for in := bufio.NewReader(c); ; {
				words, _, err := ReadCommand(in)
				if err != nil {
					return
				}
				reply := "-ERR unknown command\r\n"
				switch strings.ToLower(strings.Join(words, " ")) {
				case "cluster info":
					reply = resp("cluster_state:ok\r\n")
				case "info replication":
					reply = resp("role:master\r\n")
				case "cluster shards":
					reply = resp(shards)
				}
				_, _ = io.WriteString(c, reply)
			}
		})
		_, port, _ := net.SplitHostPort(addr)
		failed, over := &Server{id: "a"}, &Server{id: "b", proc: &process{exited: make(chan struct{})}}
		over.port, _ = strconv.Atoi(port)
		c := &Cluster{Servers: []*Server{failed, over}}
		v, err := c.view(over)
		if err == nil {
			err = c.check(v)
		}
		if owner := v.owner(1); err != nil || owner != over {
			t.Errorf("%s: the owner is %+v, %v", name, owner, err)
		}
	}
}

// resp returns v, a text, a number or a list, as a server sends it.
func resp(v any) string {
	switch v := v.(type) {
	case []any:
		text := fmt.Sprintf("*%d\r\n", len(v))
		for _, part := range v {
			text += resp(part)
		}
		return text
	case int:
		return fmt.Sprintf(":%d\r\n", v)
	default:
		return fmt.Sprintf("$%d\r\n%s\r\n", len(v.(string)), v)
	}
}

package redisstore

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
)

// TestCommandAllocations: the call for a request takes three pieces of memory: the text of its keys, the argument that
// is its key, and the list of arguments. What the text is built in, 2 KB for a batch, stays on the stack.
func TestCommandAllocations(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	t.Cleanup(func() { rdb.Close() })
	c := bind(t, rdb, core.PerMinute(3))
	batch := []*call{{Request: asking(c, "ip:198.51.100.7", 1, true)}}
	for name, command := range map[string]func() []any{
		"in a batch": func() []any { return c.batches.command(batch) },
		"alone":      func() []any { return c.rule.Call(&batch[0].Request.Ask) },
	} {
		if n := testing.AllocsPerRun(100, func() { command() }); n > 3 {
			t.Errorf("%s: %v allocations, want at most 3", name, n)
		}
	}
}

package redisstore

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/internal/notice"
)

// noteAnswer is called when the server of a breaker has answered a request by a rule. The first
// time that there is an observer to tell, it looks in the background whether the server evicts.
// node is the server's client, or nil for the program's own one.
func (c *client) noteAnswer(b *breaker, node *redis.Client, rule *core.Binding) {
	if c.joint.unsaid.Load() != nil {
		go c.say(rule)
	}
	if rule.Notice == nil || b.looked.Load() {
		return
	}
	if from := c.informer(node); from != nil && b.looked.CompareAndSwap(false, true) {
		go lookAtMemory(from, b.status.Load().Server, rule)
	}
}

// informer returns the client to ask about a server, or nil if a question might delay a
// decision, or is not certain to reach that server.
func (c *client) informer(node *redis.Client) redis.UniversalClient {
	if node == nil {
		node = c.heeding
	}
	switch {
	case node != nil && node.Options().PoolSize > 1:
		return node
	case node == nil && c.cluster == nil && c.ring == nil:
		return c.rdb
	}
	return nil
}

// lookAtMemory gives a notice if the server evicts. A server that does not answer within the
// timeout of a decision, or refuses INFO, is left alone: the Check of the store says more.
func lookAtMemory(from redis.UniversalClient, addr string, rule *core.Binding) {
	defer func() { _ = recover() }() // of go-redis, at an unreadable reply; there is nothing to tell then
	ctx, cancel := context.WithTimeout(context.Background(), cmp.Or(rule.Timeout, core.DefaultTimeout))
	defer cancel()
	info, err := from.Info(ctx, "memory").Result()
	if err != nil {
		return
	}
	if err := checkMemory(cmp.Or(addr, "the server"), infoFields(info)); err != nil {
		rule.Notice(notice.Evicting, strings.TrimPrefix(err.Error(), "sash: "))
	}
}

// infoFields returns the fields of a reply to INFO.
func infoFields(info string) map[string]string {
	fields := map[string]string{}
	for line := range strings.Lines(info) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	return fields
}

// checkMemory returns what is wrong with the memory of a server according to its INFO, or
// nil.
func checkMemory(addr string, fields map[string]string) error {
	limit, policy := fields["maxmemory"], fields["maxmemory_policy"]
	if limit == "" || limit == "0" || policy == "noeviction" {
		return nil
	}
	return fmt.Errorf("sash: %s: with maxmemory %s and maxmemory-policy %s Redis deletes counts "+
		"when it is full, and clients get their quota back "+
		"(every key of sash has a TTL, so volatile policies do it too): "+
		"set maxmemory-policy noeviction, or give limits a Redis of their own", addr, limit, policy)
}

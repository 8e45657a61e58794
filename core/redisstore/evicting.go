package redisstore

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore/internal/server"
	"github.com/sashlimit/sash/internal/notice"
)

// noteAnswer is called when a server has answered a request by a rule. The first
// time that there is an observer to tell, it looks in the background whether the server evicts.
func (s *Store) noteAnswer(by *server.Server, rule *core.Binding) {
	if s.joint.unsaid.Load() != nil {
		go s.say(rule)
	}
	if rule.Notice == nil {
		return
	}
	if from := by.AskOnce(); from != nil {
		go lookAtMemory(from, by.Addr(), rule)
	}
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

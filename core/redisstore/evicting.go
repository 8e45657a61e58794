package redisstore

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/internal/notice"
)

// warnOfEviction asks each server about its memory, and gives a notice if one evicts. A server that does not answer, or
// refuses INFO, is left out: Check says more.
func (s *Store) warnOfEviction() {
	ctx, cancel := context.WithTimeout(context.Background(), checkTimeout)
	defer cancel()
	_ = s.forEachServer(ctx, func(ctx context.Context, node redis.UniversalClient, addr string) {
		defer func() { _ = recover() }() // of go-redis, at an unreadable reply
		info, err := node.Info(ctx, "memory").Result()
		if err != nil {
			return
		}
		if err := checkMemory(addr, infoFields(info)); err != nil {
			s.notify(notice.EvictionPolicy, err.Error())
		}
	})
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

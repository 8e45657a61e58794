//go:build !race && !short

package redisstore_test

import (
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core/redisstore"
)

// TestCheckVersion: a server is judged by what it does, and not by the version that it tells. Where there is no INFO,
// as in miniredis, or none with maxmemory, as at some services, that alone is no finding.
func TestCheckVersion(t *testing.T) {
	noLeaks(t)
	for _, c := range []struct {
		name, info, eval string
		says             []string // nothing: all is well
		lines            int
	}{
		{name: "miniredis"},
		{name: "Kvrocks", info: "redis_version:4.0.0\r\nkvrocks_version:2.10.1\r\nmaxmemory:0\r\nrole:master\r\n"},
		{name: "a service", info: "redis_version:7.4.0\r\nrole:master\r\n"},
		{
			name: "Redis 4", info: "redis_version:4.0.14\r\nmaxmemory:0\r\nrole:master\r\n",
			eval: "@user_script: 9: Write commands not allowed after non deterministic commands.",
			says: []string{"cannot decide", "non deterministic"}, lines: 1,
		},
		{
			name: "a service that is full", info: "redis_version:7.4.0\r\nrole:master\r\n",
			eval: "OOM command not allowed when used memory > 'maxmemory'.",
			says: []string{"the server is full"}, lines: 1,
		},
		{
			name: "a replica of Redis 6", info: "maxmemory:0\r\nrole:slave\r\nmaster_host:a\r\n",
			eval: "@user_script: 9: -READONLY You can't write against a read only replica.",
			says: []string{"this is a replica"}, lines: 1,
		},
	} {
		m := miniredis.RunT(t)
		m.Server().SetPreHook(func(peer *server.Peer, name string, _ ...string) bool {
			switch {
			case name == "INFO" && c.info != "":
				peer.WriteBulk(c.info)
			case strings.HasPrefix(name, "EVAL") && c.eval != "":
				peer.WriteError(c.eval)
			default:
				return false
			}
			return true
		})
		rdb := redis.NewClient(&redis.Options{Addr: m.Addr()})
		err := redisstore.New(rdb).Check(ctx)
		rdb.Close()
		if (err != nil) != (len(c.says) > 0) || err != nil && !mentions(err, c.says...) ||
			err != nil && strings.Count(err.Error(), "sash: ") != c.lines {
			t.Errorf("%s: %v, want %q in %d lines", c.name, err, c.says, c.lines)
		}
	}
}

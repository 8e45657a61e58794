//go:build !race && !short

package redisstore_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

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
			says: []string{"the server is full", "INFO has no maxmemory"}, lines: 2,
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

// TestCheckAtOnce: a server that admits too many only where two scripts run at once is found out. An honest one is sent
// both scripts of each pair.
func TestCheckAtOnce(t *testing.T) {
	m := miniredis.RunT(t)
	rdb := redis.NewClient(&redis.Options{Addr: m.Addr()})
	t.Cleanup(func() { rdb.Close() })
	meet := make(chan struct{})
	var honest atomic.Bool
	var scripts, resets atomic.Int64
	m.Server().SetPreHook(func(c *server.Peer, name string, args ...string) bool {
		if honest.Load() && name == "DEL" && strings.HasSuffix(args[0], "at once") {
			resets.Add(1)
		}
		if !strings.HasPrefix(name, "EVAL") || !strings.HasSuffix(args[2], "at once") || args[len(args)-1] == "0" {
			return false // the last makes a connection
		}
		if honest.Load() {
			scripts.Add(1)
			return false
		}
		select {
		case meet <- struct{}{}:
		case <-meet:
		case <-time.After(patient):
			t.Error("a script came alone")
		}
		c.WriteBulk("1790000000 5A-") // admitted, since nothing counted
		return true
	})
	err := redisstore.New(rdb).Check(ctx)
	if !mentions(err, m.Addr(), "both admitted under a limit of 1", "--lua-transaction-mode") {
		t.Errorf("%v", err)
	}
	if n := len(m.Keys()); n > 0 {
		t.Errorf("%d keys are left", n)
	}
	honest.Store(true)
	for range 2 { // the server knows the script the second time
		scripts.Store(0)
		resets.Store(0)
		if err := redisstore.New(rdb).Check(ctx); err != nil {
			t.Errorf("an honest server: got %v", err)
		}
	}
	if got, want := scripts.Load(), resets.Load(); got != want || got == 0 {
		t.Errorf("got %d scripts, want %d: two for each pair", got, want)
	}
}

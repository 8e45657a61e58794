package redisstore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore"
	"github.com/sashlimit/sash/core/storetest"
	"github.com/sashlimit/sash/internal/redistest"
)

func TestConformanceSingle(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	storetest.Run(t, func(*testing.T) core.Store { return redisstore.New(rdb) })
}

func TestConformanceCluster(t *testing.T) {
	rdb := redistest.StartCluster(t, 3, 0).Client(t)
	storetest.Run(t, func(*testing.T) core.Store { return redisstore.New(rdb) })
}

func TestConformanceRing(t *testing.T) {
	_, rdb := startRing(t, 3, 0)
	storetest.Run(t, func(*testing.T) core.Store { return redisstore.New(rdb) })
}

func TestConformanceMiniredis(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr(), ReadTimeout: time.Minute})
	t.Cleanup(func() { rdb.Close() })
	storetest.Run(t, func(*testing.T) core.Store { return redisstore.New(rdb) })
}

// TestHugePrefix: the error of a prefix that is too long does not repeat all of it.
func TestHugePrefix(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	t.Cleanup(func() { rdb.Close() })
	s := redisstore.New(rdb, redisstore.WithPrefix(strings.Repeat("x", 1<<20)))
	_, err := core.New(core.Config{Store: s, Limits: []core.Limit{core.PerMinute(1)}})
	if err == nil || len(err.Error()) > 400 || !strings.Contains(err.Error(), "1 to 128 bytes") {
		t.Errorf("got %.400v", err)
	}
}

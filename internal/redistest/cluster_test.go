package redistest

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func TestClusterOwnsEverySlot(t *testing.T) {
	t.Parallel()
	began := time.Now()
	c := StartCluster(t, 3, 0)
	t.Logf("up after %v", time.Since(began))

	// One key per slot.
	keys := make(map[int]string, Slots)
	for i := 0; len(keys) < Slots; i++ {
		key := fmt.Sprintf("key:%d", i)
		keys[Slot(key)] = key
	}
	client := c.Client(t)
	sets, err := client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, key := range keys {
			p.Set(ctx, key, key, 0)
		}
		return nil
	})
	if err != nil || len(sets) != Slots {
		t.Fatalf("%d keys set: %v", len(sets), err)
	}
	for i, s := range c.Servers {
		n, err := s.Client(t).DBSize(ctx).Result()
		if err != nil {
			t.Fatal(err)
		}
		if want := int64(Slots / 3); n < want || n > want+1 {
			t.Errorf("server %d of 3 holds %d of %d keys", i, n, Slots)
		}
	}
}

func TestClusterMigration(t *testing.T) {
	t.Parallel()
	c := StartCluster(t, 3, 0)
	client := c.Client(t)
	const stays, goes = "{tag}stays", "{tag}goes"
	for _, key := range []string{stays, goes} {
		if err := client.Set(ctx, key, key, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	from := c.MasterOf(stays)
	to := c.Servers[0]
	if to == from {
		to = c.Servers[1]
	}

	m := c.BeginMigration(t, Slot(stays), from, to)
	m.MoveKeys(t, goes, "{tag}absent")
	for _, key := range []string{stays, goes} {
		if got, err := client.Get(ctx, key).Result(); got != key {
			t.Errorf("half-way: %s is %q, %v", key, got, err)
		}
	}
	if err := from.Client(t).Get(ctx, goes).Err(); !redis.HasErrorPrefix(err, "ASK") {
		t.Errorf("the old owner says %v", err)
	}
	if err := from.Client(t).MGet(ctx, stays, goes).Err(); !redis.HasErrorPrefix(err, "TRYAGAIN") {
		t.Errorf("the old owner says %v", err)
	}
	m.Finish(t)

	if got := c.MasterOf(stays); got != to {
		t.Errorf("the slot is at %s, not %s", got.Addr(), to.Addr())
	}
	for _, key := range []string{stays, goes} {
		if got, err := client.Get(ctx, key).Result(); got != key {
			t.Errorf("after: %s is %q, %v", key, got, err)
		}
	}
	if err := from.Client(t).Get(ctx, goes).Err(); !redis.HasErrorPrefix(err, "MOVED") {
		t.Errorf("the old owner says %v", err)
	}
	c.MigrateSlot(t, Slot(stays), to, from)
	c.WaitOK(t)
	if got := c.MasterOf(stays); got != from {
		t.Errorf("the slot is at %s, not %s", got.Addr(), from.Addr())
	}
}

func TestClusterHeals(t *testing.T) {
	t.Parallel()
	c := StartCluster(t, 3, 1)
	client := c.Client(t)
	const key = "key"
	if err := client.Set(ctx, key, "before", 0).Err(); err != nil {
		t.Fatal(err)
	}
	master := c.MasterOf(key)
	master.Kill()
	if got := c.MasterOf(key); got != master {
		t.Errorf("%s took over at once", got.Addr())
	}
	began := time.Now()
	c.WaitOK(t)
	t.Logf("healed after %v", time.Since(began))
	heir := c.MasterOf(key)
	if heir == master || !heir.answers() {
		t.Fatalf("the master is %s, the dead one was %s", heir.Addr(), master.Addr())
	}
	// A refused connection does not make go-redis 9.23 ask for the slots again: it
	// asks after 60 s.
	client.ReloadState(ctx)
	WaitFor(t, "the client to find the new master", func() error {
		return client.Set(within(t, time.Second), key, "after", 0).Err()
	})
	master.Restart() // as a replica
	c.WaitOK(t)
	if got := c.MasterOf(key); got != heir {
		t.Errorf("the master is %s, not %s", got.Addr(), heir.Addr())
	}
}

func TestSlot(t *testing.T) {
	t.Parallel()
	client := Start(t, "--cluster-enabled", "yes", "--cluster-port", mustFreePort(t)).Client(t)
	for _, key := range []string{
		"", "a", "123456789", "{a}b", "b{a}", "{}a", "{a", "a}", "{a}{b}", "}{a}", "{{a}}",
		"\x00\xff", "key with spaces",
	} {
		want, err := client.ClusterKeySlot(ctx, key).Result()
		if got := Slot(key); err != nil || int64(got) != want {
			t.Errorf("Slot(%q) = %d, want %d, %v", key, got, want, err)
		}
	}
}

func mustFreePort(t *testing.T) string {
	t.Helper()
	port, err := FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return strconv.Itoa(port)
}

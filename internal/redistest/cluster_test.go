package redistest

import (
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"
)

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

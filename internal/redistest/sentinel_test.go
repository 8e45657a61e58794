package redistest

import (
	"testing"
	"time"
)

func TestSentinelFailover(t *testing.T) {
	t.Parallel()
	began := time.Now()
	s := StartSentinel(t, 2, 3)
	t.Logf("up after %v", time.Since(began))
	client := s.Client(t)
	if err := client.Set(ctx, "key", "before", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if n, err := client.Wait(ctx, 2, time.Second).Result(); n != 2 {
		t.Fatalf("%d replicas have the key: %v", n, err)
	}

	master := s.Master()
	if master != s.Servers[0] || len(s.Replicas()) != 2 {
		t.Fatalf("the master is %s with %d replicas", master.Addr(), len(s.Replicas()))
	}
	master.Kill()
	began = time.Now()
	s.WaitOK(t)
	t.Logf("healed after %v", time.Since(began))
	heir := s.Master()
	if heir == master {
		t.Fatal("the dead server is the master")
	}
	WaitFor(t, "the client to find the new master", func() error {
		return client.Set(within(t, time.Second), "other", "after", 0).Err()
	})
	if got, err := client.Get(ctx, "key").Result(); got != "before" {
		t.Errorf("the failover lost the key: %q, %v", got, err)
	}

	master.Restart() // the sentinels make it a replica
	s.WaitOK(t)
	if got := s.Master(); got != heir {
		t.Errorf("the master is %s, not %s", got.Addr(), heir.Addr())
	}
}

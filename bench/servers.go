package bench

import (
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"

	"github.com/sashlimit/sash/internal/redistest"
)

// owner owns servers that are started outside of tests. It has the methods of testing.TB that package redistest calls.
// Fatal and Fatalf panic with a failure. An owner is safe for concurrent use, since the nodes of a cluster start at
// once. The servers end with this process, however it ends.
type owner struct {
	testing.TB // nil: no other method may be called

	mu       sync.Mutex // guards cleanups
	cleanups []func()
}

func (o *owner) Helper()                           {}
func (o *owner) Failed() bool                      { return false }
func (o *owner) Fatal(args ...any)                 { panic(failure(fmt.Sprint(args...))) }
func (o *owner) Fatalf(format string, args ...any) { panic(failure(fmt.Sprintf(format, args...))) }
func (o *owner) Errorf(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
func (o *owner) Cleanup(f func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.cleanups = append(o.cleanups, f)
}
func (o *owner) TempDir() string {
	dir, err := os.MkdirTemp("", "sash-bench")
	if err != nil {
		o.Fatal(err)
	}
	o.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// failure is the panic of an owner.
type failure string

func (f failure) Error() string { return string(f) }

// withServers calls f with what start has started, and ends that when f has returned. A start of nil starts nothing.
func withServers[S any](start func(testing.TB) S, f func(S) error) (err error) {
	o := &owner{}
	defer func() {
		for i := len(o.cleanups) - 1; i >= 0; i-- {
			o.cleanups[i]()
		}
		if p := recover(); p != nil {
			failed, ok := p.(failure)
			if !ok {
				panic(p)
			}
			err = failed
		}
	}()
	var started S
	if start != nil {
		started = start(o)
	}
	return f(started)
}

// checkRedis returns an error if there is no redis-server.
func checkRedis() error {
	if _, err := exec.LookPath("redis-server"); err != nil {
		return fmt.Errorf("%w: install Debian's package redis-server, or run make bench, which does", err)
	}
	return nil
}

// single starts a single server.
func single(tb testing.TB) Env { return Env{[]string{redistest.Start(tb).Addr()}} }

// threeMasters starts a cluster of three masters.
func threeMasters(tb testing.TB) Env { return Env{redistest.StartCluster(tb, 3, 0).Addrs()} }

package bench

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"testing"

	"github.com/sashlimit/sash/internal/redistest"
)

// owner owns servers that are started outside of tests. It has the methods of
// testing.TB that package redistest calls. Fatal and Fatalf panic with a failure.
// An owner is safe for concurrent use, since the nodes of a cluster start at once.
type owner struct {
	testing.TB // nil: no other method may be called

	mu       sync.Mutex // guards cleanups
	cleanups []func()
}

func (o *owner) Helper()                           {}
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

// clean calls the cleanups, the last one first. o.mu must be held.
func (o *owner) clean() {
	for i := len(o.cleanups) - 1; i >= 0; i-- {
		o.cleanups[i]()
	}
	o.cleanups = nil
}

// cleanOnSignal calls the cleanups and ends this process when it is interrupted,
// until stop is called.
func (o *owner) cleanOnSignal() (stop func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		if _, ok := <-signals; ok {
			o.mu.Lock() // never unlocked: this goroutine ends the process
			o.clean()
			fmt.Fprintln(os.Stderr, "interrupted")
			os.Exit(130)
		}
	}()
	return func() { signal.Stop(signals); close(signals) }
}

// withServers calls f with the servers that start has started. It ends the servers
// when f has returned, or when this process is interrupted.
func withServers[S any](start func(testing.TB) S, f func(S) error) (err error) {
	o := &owner{}
	stop := o.cleanOnSignal()
	defer func() {
		o.mu.Lock()
		o.clean()
		o.mu.Unlock()
		stop()
		if p := recover(); p != nil {
			failed, ok := p.(failure)
			if !ok {
				panic(p)
			}
			err = failed
		}
	}()
	return f(start(o))
}

// checkRedis returns an error if there is no redis-server.
func checkRedis(Config) error {
	if _, err := exec.LookPath("redis-server"); err != nil {
		return fmt.Errorf("%w: install Debian's package redis-server, or run make bench, which does", err)
	}
	return nil
}

// single starts a single server.
func single(tb testing.TB) *redistest.Server { return redistest.Start(tb) }

// threeMasters starts a cluster of three masters.
func threeMasters(tb testing.TB) *redistest.Cluster { return redistest.StartCluster(tb, 3, 0) }

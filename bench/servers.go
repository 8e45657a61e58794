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

// owner starts servers outside of tests: it is as much of a testing.TB as
// package redistest uses. What would fail a test panics.
type owner struct {
	testing.TB // nil: no other method may be called

	mu       sync.Mutex // the nodes of a cluster start at once
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

type failure string

func (f failure) Error() string { return string(f) }

// clean does what was left to do, the last first. o.mu is held.
func (o *owner) clean() {
	for i := len(o.cleanups) - 1; i >= 0; i-- {
		o.cleanups[i]()
	}
	o.cleanups = nil
}

// cleanOnSignal ends this process in order when it is interrupted, until stop is
// called.
func (o *owner) cleanOnSignal() (stop func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		if _, ok := <-signals; ok {
			o.mu.Lock() // for good: the end of this process is said here
			o.clean()
			fmt.Fprintln(os.Stderr, "compare: interrupted")
			os.Exit(130)
		}
	}()
	return func() { signal.Stop(signals); close(signals) }
}

// withServers runs f with what start has started, and ends that afterwards, also
// when this process is interrupted.
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

func checkRedis(Config) error {
	if _, err := exec.LookPath("redis-server"); err != nil {
		return fmt.Errorf("%w: install Debian's package redis-server, or run make bench, which does", err)
	}
	return nil
}

func single(tb testing.TB) *redistest.Server { return redistest.Start(tb) }

func threeMasters(tb testing.TB) *redistest.Cluster { return redistest.StartCluster(tb, 3, 0) }

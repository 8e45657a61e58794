package bench

import (
	"fmt"
	"os"
	"testing"

	"github.com/sashlimit/sash/internal/redistest"
)

// owner starts servers outside of tests: it is as much of a testing.TB as
// package redistest uses. What would fail a test panics.
type owner struct {
	testing.TB // nil: no other method may be called
	cleanups   []func()
}

func (o *owner) Helper()                           {}
func (o *owner) Cleanup(f func())                  { o.cleanups = append(o.cleanups, f) }
func (o *owner) Fatal(args ...any)                 { panic(failure(fmt.Sprint(args...))) }
func (o *owner) Fatalf(format string, args ...any) { panic(failure(fmt.Sprintf(format, args...))) }
func (o *owner) Errorf(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
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

// withServers runs f with what start has started, and ends that afterwards.
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
	return f(start(o))
}

func single(tb testing.TB) *redistest.Server { return redistest.Start(tb) }

func threeMasters(tb testing.TB) *redistest.Cluster { return redistest.StartCluster(tb, 3, 0) }

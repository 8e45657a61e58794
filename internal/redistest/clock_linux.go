package redistest

import (
	"errors"
	"fmt"
	"io"
	"testing"
	"time"
)

// StartAhead starts a single server whose clock is ahead by so many seconds. It needs Debian's package faketime.
func StartAhead(tb testing.TB, ahead time.Duration, args ...string) *Server {
	tb.Helper()
	s, err := start(tb, func(string, int) ([]string, error) { return args, nil },
		// The C library comes before the jemalloc of the server, with which faketime does not get along.
		"LD_PRELOAD=/usr/$LIB/faketime/libfaketime.so.1 libc.so.6",
		fmt.Sprintf("FAKETIME=%+.0f", ahead.Seconds()), "FAKETIME_DONT_FAKE_MONOTONIC=1")
	if err != nil {
		tb.Fatal(err)
	}
	// A server that ends by itself takes away what faketime has put into /dev/shm.
	tb.Cleanup(func() {
		if err := s.ask("SHUTDOWN", "NOSAVE").Err(); errors.Is(err, io.EOF) { // there is no other answer
			<-s.proc.exited
		}
	})
	admin := s.admin()
	defer admin.Close()
	now, err := admin.Time(ctx).Result()
	if err != nil {
		tb.Fatal(err)
	}
	if off := time.Until(now.Add(-ahead)); off.Abs() > waitAtMost {
		tb.Fatalf("redistest: the server's clock is ahead by %v instead of %v: "+
			"install Debian's package faketime, or run make test, which does", ahead+off, ahead)
	}
	return s
}

package redistest

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// TestWay: a way delays what is sent, holds it in either direction until it is let through, and loses it with its
// connections.
func TestWay(t *testing.T) {
	t.Parallel()
	s := Start(t)
	const delay = 20 * time.Millisecond
	way := StartWay(t, s.Addr(), func() time.Duration { return delay })
	far := redis.NewClient(&redis.Options{Addr: way.Addr(), MaxRetries: -1, ReadTimeout: waitAtMost})
	defer far.Close()
	near := s.Client(t)
	began := time.Now()
	if err := far.Ping(ctx).Err(); err != nil || time.Since(began) < 2*delay {
		t.Errorf("an answer came after %v: %v", time.Since(began), err)
	}
	for _, held := range []struct {
		key               string
		requests, replies bool
		mend              func()
	}{
		{"requests", true, false, func() { way.Hold(false, false) }},
		{"replies", false, true, func() { way.Hold(false, false) }},
		{"lost", false, true, way.Lose},
	} {
		way.Hold(held.requests, held.replies)
		answered := make(chan error, 1)
		go func() { answered <- far.Set(ctx, held.key, 1, 0).Err() }()
		if held.replies {
			WaitFor(t, "the request to arrive", func() error { return near.Get(ctx, held.key).Err() })
		} else {
			time.Sleep(3 * delay)
			if err := near.Get(ctx, held.key).Err(); err != redis.Nil {
				t.Errorf("a request came through: %v", err)
			}
		}
		select {
		case err := <-answered:
			t.Errorf("%s: an answer came through: %v", held.key, err)
		default:
		}
		held.mend()
		if err := <-answered; (err != nil) != (held.key == "lost") {
			t.Errorf("%s: %v", held.key, err)
		}
		way.Hold(false, false)
	}
}

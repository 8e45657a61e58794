package redisstore

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"

	"github.com/sashlimit/sash/core"
)

const (
	// So many failures in a row open a server's breaker: then decisions stop
	// waiting for it.
	breakerFailures = 5

	// So long it stays open before the next decision is tried. With go-redis's
	// pool, which dials a server that was gone once a second, a server that
	// answers again is found within about a second.
	breakerPause = 100 * time.Millisecond
)

// errOpen is the error of a decision that did not wait for a server that has
// been failing.
var errOpen = errors.New("sash: Redis has been failing; not waiting for it")

// breakers holds a breaker for each server, by its address.
type breakers struct {
	mu sync.RWMutex
	of map[string]*breaker
}

type breaker struct {
	*gobreaker.TwoStepCircuitBreaker[any]
	notClosed atomic.Bool // kept beside, for those who ask for every decision
}

// newBreaker returns a closed one. One that opens stays open for a moment.
func newBreaker(addr string, opens func(gobreaker.Counts) bool) *breaker {
	b := new(breaker)
	b.TwoStepCircuitBreaker = gobreaker.NewTwoStepCircuitBreaker[any](gobreaker.Settings{
		Name:          addr,
		MaxRequests:   1,
		Timeout:       breakerPause,
		ReadyToTrip:   opens,
		OnStateChange: func(_ string, _, to gobreaker.State) { b.notClosed.Store(to != gobreaker.StateClosed) },
		IsSuccessful:  func(err error) bool { return !isFailure(err) },
		IsExcluded:    isCallers,
	})
	return b
}

func (b *breakers) get(addr string) *breaker {
	b.mu.RLock()
	one := b.of[addr]
	b.mu.RUnlock()
	if one != nil {
		return one
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if one = b.of[addr]; one == nil {
		if b.of == nil {
			b.of = map[string]*breaker{}
		}
		one = newBreaker(addr, func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= breakerFailures })
		b.of[addr] = one
	}
	return one
}

// errCaller marks an error as the doing of the caller, whose own context had
// ended: it says nothing about the server.
type errCaller struct{ error }

func (e errCaller) Unwrap() error { return e.error }

func isCallers(err error) bool {
	_, ok := err.(errCaller)
	return ok || errors.Is(err, redis.ErrClosed)
}

// failing begins the replies of a server that cannot decide for now. Other
// errors are answers: the server is there, and waiting for it costs nothing.
var failing = []string{"READONLY", "MASTERDOWN", "LOADING", "CLUSTERDOWN", "TRYAGAIN", "MISCONF", "NOREPLICAS"}

// isFailure says whether err speaks against the server.
func isFailure(err error) bool {
	if err == nil {
		return false
	}
	if !isReply(err) {
		return true
	}
	for _, prefix := range failing {
		if redis.HasErrorPrefix(err, prefix) {
			return true
		}
	}
	return false
}

// isReply says whether err is what a server answered.
func isReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply) && !strings.HasPrefix(reply.Error(), "redis: ")
}

// guarded runs call unless the breaker is open. Where the breaker tries whether
// the server is back, it tries with a real decision, one at a time, which the
// caller does not wait for: the policy answers at once, as it does for the
// others, and the outcome is for those who come later.
func guarded(ctx context.Context, b *breaker, call func(context.Context) (string, error)) (string, error) {
	done, err := b.Allow()
	if err != nil {
		return "", errOpen
	}
	if b.State() != gobreaker.StateHalfOpen {
		reply, err := call(ctx)
		done(err)
		return reply, err
	}
	// As long as it may take, whoever asks: of callers in a hurry each would open
	// the breaker again.
	timeout := time.Second
	if deadline, ok := ctx.Deadline(); ok {
		timeout = max(time.Until(deadline), core.DefaultTimeout)
	}
	go func() {
		ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), timeout, core.ErrTimeout)
		defer cancel()
		_, err := call(ctx)
		done(err)
	}()
	return "", errOpen
}

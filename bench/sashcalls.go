package bench

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore"
)

// waiting returns a limiter of sash that waits long for its store, since a stall of a busy
// machine is no result.
func waiting(timeout time.Duration, name string, store core.Store, limits ...core.Limit) (*core.Limiter, error) {
	return core.New(core.Config{
		Name: name, Store: store, Limits: limits, OnStoreError: core.FailClosed, Timeout: timeout,
	})
}

// recordSash records the commands of a limiter of sash. The server keeps their counts.
func (l *lab) recordSash(clients int, name string, limits ...core.Limit) ([][]string, error) {
	recorded, err := waiting(labTimeout, name, redisstore.New(l.recorded), limits...)
	if err != nil {
		return nil, err
	}
	return l.record(clients, func(client string) error {
		return admitted(recorded.Allow(context.Background(), client))
	})
}

// sashCalls holds the commands that a limiter of sash sends, one for each client.
type sashCalls struct {
	*lab
	scripts  [][]string    // words of each command
	encoded  [][]byte      // each command in the protocol of Redis
	observer *core.Limiter // a limiter with the same counts that is not recorded
}

// sash records the commands of a limiter of sash. All counts are empty afterwards.
func (l *lab) sash(clients int, limits ...core.Limit) (*sashCalls, error) {
	l.names++
	name := "bench" + strconv.Itoa(l.names)
	scripts, err := l.recordSash(clients, name, limits...)
	if err != nil {
		return nil, err
	}
	c := &sashCalls{lab: l, scripts: scripts, encoded: encodeAll(scripts)}
	if c.observer, err = waiting(labTimeout, name, redisstore.New(l.rdb), limits...); err != nil {
		return nil, err
	}
	return c, c.empty()
}

// admitted returns an error unless d admits the request.
func admitted(d core.Decision) error { return orRefused(d.Err, d.Allowed) }

// together returns commands with one script for the requests of n clients each.
// sash sends such scripts for requests that wait together.
func (c *sashCalls) together(n int) ([][]byte, error) {
	var commands [][]byte
	for batch := range slices.Chunk(c.scripts, n) {
		var keys, args []string
		for i, s := range batch {
			k, err := keysOf(s)
			if err != nil {
				return nil, err
			}
			keys = append(keys, k...)
			if i == 0 { // scripts.lua.tmpl takes the same limits, and a cost of 1, for the others
				args = s[3+len(k):]
			}
		}
		command := append(append(batch[0][:2:2], strconv.Itoa(len(keys))), keys...)
		commands = append(commands, encode(append(command, args...)...))
	}
	return commands, nil
}

// actor returns an actor of the commands. If together is not 1, each script decides
// the requests of this number of clients.
func (c *sashCalls) actor(name string, goal Goal, together int) (*actor, error) {
	a := &actor{name: name, goal: goal, commands: c.encoded, together: together}
	if together == 1 {
		return a, nil
	}
	if len(c.scripts)%together != 0 {
		return nil, fmt.Errorf("%s: %d clients do not fit scripts for %d", name, len(c.scripts), together)
	}
	a.name += fmt.Sprintf(", %d in a script", together)
	var err error
	a.commands, err = c.together(together)
	return a, err
}

// empty deletes the counts of all clients.
func (c *sashCalls) empty() error {
	var b []byte
	for _, s := range c.scripts {
		keys, err := keysOf(s)
		if err != nil {
			return err
		}
		b = append(b, encode(append([]string{"DEL"}, keys...)...)...)
	}
	return c.wire.pipeline(b, len(c.scripts), nil)
}

// fill counts a number of requests for each client.
func (c *sashCalls) fill(requests int) error {
	if err := c.first(requests); err != nil {
		return err
	}
	return c.copyFirst()
}

// first counts a number of requests for the first client.
func (c *sashCalls) first(requests int) error {
	for sent := 0; sent < requests; {
		n := min(512, requests-sent)
		var b []byte
		for range n {
			b = append(b, c.encoded[0]...)
		}
		if err := c.wire.pipeline(b, n, nil); err != nil {
			return err
		}
		sent += n
	}
	return nil
}

// copyFirst copies the keys of the first client for the others.
func (c *sashCalls) copyFirst() error {
	from, err := keysOf(c.scripts[0])
	if err != nil {
		return err
	}
	for _, s := range c.scripts[1:] {
		to, err := keysOf(s)
		if err != nil {
			return err
		}
		for i := range to {
			if copied, err := c.wire.do("COPY", from[i], to[i], "REPLACE"); err != nil || copied != int64(1) {
				return fmt.Errorf("COPY of %q: %v, %w", from[i], copied, err)
			}
		}
	}
	return nil
}

// checkCounts returns an error unless the library has counted a number of units for all
// clients together, and admits, or refuses, the next request of every client.
func (c *sashCalls) checkCounts(want int64, admits bool) error {
	units := int64(0)
	for i := range c.scripts {
		d := c.observer.Peek(context.Background(), client(i))
		if d.Err != nil {
			return d.Err
		}
		if d.Allowed != admits {
			return fmt.Errorf("the next request of client %d is admitted: %v, want %v", i, d.Allowed, admits)
		}
		units += d.Limit.Requests - d.Remaining
		if d.Allowed {
			units-- // Remaining is what would remain after the request
		}
	}
	if units != want {
		return fmt.Errorf("%d units are counted, not %d", units, want)
	}
	return nil
}

// plainCalls returns the commands of a sash limiter for a number of clients, for a
// caller that sends them without the library.
func plainCalls(addr string, clients int, limit core.Limit) ([][]any, error) {
	l, err := newLab(addr)
	if err != nil {
		return nil, err
	}
	defer l.close()
	scripts, err := l.recordSash(clients, "plain"+limit.Algorithm.String(), limit)
	if err != nil {
		return nil, err
	}
	calls := make([][]any, len(scripts))
	for i, s := range scripts {
		for _, word := range s {
			calls[i] = append(calls[i], word)
		}
	}
	return calls, nil
}

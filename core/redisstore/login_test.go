package redisstore_test

import (
	"cmp"
	"encoding/gob"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore"
	"github.com/sashlimit/sash/internal/redistest"
)

// loginAt tells the test binary to attempt logins; see login.
const loginAt = "SASH_TEST_LOGIN_AT"

const (
	loginProcesses = 4
	loginLimit     = 5
)

func loginLimiter(rdb *redis.Client) *core.Limiter {
	return core.Must(core.New(core.Config{
		Name: "login", Store: redisstore.New(rdb), Limits: []core.Limit{core.Per(loginLimit, 15*time.Minute)},
		OnStoreError: core.FailClosed, Timeout: patient,
	}))
}

// attempts are what a process has seen of its logins.
type attempts struct {
	Tries  int // decisions
	Passed []span
}

// span is an attempt that was let through: from when to when it was counted at least, in
// nanoseconds.
type span struct {
	From, To int64
	Failed   bool
}

// loginWork is what a process is to do: attempts that fail and that succeed, all at once. Each
// is made again until it is let through or a time has passed since the first.
type loginWork struct {
	addr, client  string
	fail, succeed int
	begin, lasts  int64 // nanoseconds
}

func (w loginWork) String() string {
	return fmt.Sprintln(w.addr, w.client, w.fail, w.succeed, w.begin, w.lasts)
}

// login does the work and writes what it has seen to its output.
func login(text string) error {
	var w loginWork
	if _, err := fmt.Sscan(text, &w.addr, &w.client, &w.fail, &w.succeed, &w.begin, &w.lasts); err != nil {
		return err
	}
	rdb := redis.NewClient(&redis.Options{Addr: w.addr})
	defer rdb.Close()
	l := loginLimiter(rdb)
	var mu sync.Mutex
	var all attempts
	var failure error
	var end time.Time
	attempt := func(fails bool) (over bool) {
		r := l.Reserve(ctx, core.Request{Key: w.client, Cost: 1})
		one, err := span{From: time.Now().UnixNano(), Failed: fails}, r.Decision.Err
		if r.Decision.Allowed {
			time.Sleep(time.Millisecond) // a password is checked
		}
		one.To = time.Now().UnixNano()
		if r.Decision.Allowed && !fails {
			var n int64
			if n, err = r.Return(ctx, 1); n != 1 && err == nil {
				err = fmt.Errorf("%d units given back", n)
			}
		}
		mu.Lock()
		defer mu.Unlock()
		all.Tries++
		if r.Decision.Allowed {
			all.Passed = append(all.Passed, one)
		}
		if err != nil {
			failure = err
		}
		return r.Decision.Allowed || err != nil || time.Now().After(end)
	}
	time.Sleep(time.Until(time.Unix(0, w.begin)))
	end = time.Now().Add(time.Duration(w.lasts))
	var group sync.WaitGroup
	for i := range w.fail + w.succeed {
		group.Go(func() {
			for !attempt(i < w.fail) {
				time.Sleep(5 * time.Millisecond)
			}
		})
	}
	group.Wait()
	if failure != nil {
		return failure
	}
	return gob.NewEncoder(os.Stdout).Encode(all)
}

// mostAtOnce returns how many attempts were counted at the same time at most. A failed one is
// counted from when it was let through.
func mostAtOnce(spans []span) (most int) {
	type change struct {
		at int64
		by int
	}
	var changes []change
	for _, s := range spans {
		changes = append(changes, change{s.From, 1})
		if !s.Failed {
			changes = append(changes, change{s.To, -1})
		}
	}
	slices.SortFunc(changes, func(a, b change) int { return cmp.Or(cmp.Compare(a.at, b.at), a.by-b.by) })
	now := 0
	for _, c := range changes {
		now += c.by
		most = max(most, now)
	}
	return most
}

// TestLogin: of 200 attempts at a login of 5 per 15 minutes, made at once by four processes, at
// most five are counted at any time. A successful one is given back, a failed one stays: five
// failed ones get through, and all successful ones while fewer than five have failed.
func TestLogin(t *testing.T) {
	rdb := redistest.Start(t)
	for _, c := range []struct {
		fail, succeed int // of each process
		lasts         time.Duration
	}{
		{0, 50, patient}, {50, 0, time.Second}, {1, 49, patient}, {25, 25, time.Second},
	} {
		begin := time.Now().Add(300 * time.Millisecond)
		client := fmt.Sprint("client", c.fail)
		work := loginWork{rdb.Addr(), client, c.fail, c.succeed, begin.UnixNano(), int64(c.lasts)}
		var seen [loginProcesses]attempts
		var group sync.WaitGroup
		for i := range seen {
			group.Go(func() { run(t, loginAt, work.String(), &seen[i]) })
		}
		group.Wait()
		var all attempts
		failed := 0
		for _, s := range seen {
			all.Tries += s.Tries
			all.Passed = append(all.Passed, s.Passed...)
		}
		for _, s := range all.Passed {
			if s.Failed {
				failed++
			}
		}
		most, succeeded := mostAtOnce(all.Passed), len(all.Passed)-failed
		took := time.Duration(0)
		for _, s := range all.Passed {
			took = max(took, time.Duration(s.To-work.begin))
		}
		t.Logf("%d failed and %d successful attempts: %d failed and %d successful were let through, the last after %v; "+
			"%d decisions, at most %d counted at a time", loginProcesses*c.fail, loginProcesses*c.succeed,
			failed, succeeded, took.Round(time.Millisecond), all.Tries, most)
		wantFailed := min(loginLimit, loginProcesses*c.fail)
		if most > loginLimit || failed != wantFailed {
			t.Errorf("%d failed, %d at a time: want %d, and at most %d", failed, most, wantFailed, loginLimit)
		}
		if wantFailed < loginLimit && succeeded != loginProcesses*c.succeed {
			t.Errorf("%d successful attempts were let through", succeeded)
		}
		d := loginLimiter(rdb.Client(t)).AllowN(ctx, work.client, 0)
		if d.Err != nil || d.Remaining != int64(loginLimit-wantFailed) {
			t.Errorf("%+v in the end, and %d failed", d, failed)
		}
	}
}

package redisstore

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore/internal/script"
	"github.com/sashlimit/sash/core/redisstore/internal/server"
)

// TestEventsOfBatches: the number of batches, of requests in them, and the largest.
func TestEventsOfBatches(t *testing.T) {
	rdb := redis.NewRing(&redis.RingOptions{})
	defer rdb.Close()
	s := New(rdb)
	requests := together{newQueue(nil, 0, 0), s, s.client.First}
	for _, n := range []int{2, 5, 3} {
		requests.begin(slices.Repeat([]*call{{Context: t.Context()}}, n)).End(nil)
	}
	if n := s.Stats(); n.Batches != 3 || n.BatchedRequests != 10 || n.LargestBatch != 5 {
		t.Errorf("%+v; want 3 batches of 10 requests, the largest of 5", n)
	}
}

// TestCommandAllocations: the call for a request takes three pieces of memory: the text of its keys, the argument that
// is its key, and the list of arguments. What the text is built in, 2 KB for a batch, stays on the stack.
func TestCommandAllocations(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	t.Cleanup(func() { rdb.Close() })
	c := bind(t, rdb, core.PerMinute(3))
	batch := []*call{{Request: request{Ask: core.Ask{Key: "ip:198.51.100.7", Cost: 1}, ledger: c}}}
	for name, command := range map[string]func() []any{
		"in a batch": func() []any { return c.batches.command(batch) },
		"alone":      func() []any { return c.rule.Call(&batch[0].Request.Ask) },
	} {
		if n := testing.AllocsPerRun(100, func() { command() }); n > 3 {
			t.Errorf("%s: %v allocations, want at most 3", name, n)
		}
	}
}

// FuzzBatchReply: whatever server writes a reply to a batch, each caller is told its part, and all that come after a
// part which cannot be read are told that.
func FuzzBatchReply(f *testing.F) {
	for _, reply := range []string{
		"", "1790000000 5", "1790000000 5A-", "1790000000 5A-A-R-A-", "1790000000 593790A-R-A\xff",
		"1790000000 5Fkey\nEERR no\nA-A-", "1790000000 5EERR no\n", "999999999999999999 999999999999999999A-",
	} {
		f.Add(reply, int64(1), uint8(2))
		f.Add(reply, int64(1), uint8(4))
	}
	waiting, all := newWaiting(), []*ledger{}
	for _, a := range core.Algorithms() {
		rule := core.Binding{Limits: []core.Limit{core.PerMinute(1).Using(a)}}
		all = append(all, &ledger{rule: script.New("", rule, script.Script{})})
	}
	f.Fuzz(func(t *testing.T, reply string, cost int64, size uint8) {
		for _, l := range all {
			waiting.read(t, l, reply, max(cost, 0), 1+int(size%8))
		}
	})
}

// waiting is callers that wait for their part of a reply.
type waiting struct {
	queue *queue
	calls chan *call
}

func newWaiting() waiting {
	w := waiting{calls: make(chan *call, 8)}
	w.queue = newQueue(func(batch []*call) bool {
		for _, c := range batch {
			w.calls <- c
		}
		return true
	}, 0, 0)
	return w
}

// read has n callers, 8 at most, wait for a reply, and compares what each is told with its part of the reply.
func (w waiting) read(t *testing.T, c *ledger, reply string, cost int64, n int) {
	t.Helper()
	type answer struct {
		d   core.Decision
		err error
	}
	answers, batch := make([]chan answer, n), make([]*call, n)
	for i := range answers {
		answers[i] = make(chan answer, 1)
		go func() {
			asked := core.Ask{Key: strconv.Itoa(i), Cost: cost}
			d, err := w.queue.Do(ctx, time.Time{}, &request{Ask: asked, ledger: c})
			answers[i] <- answer{d, err}
		}()
	}
	order := make([]string, n)
	for i := range batch {
		batch[i] = <-w.calls
		order[i] = batch[i].Request.Key
	}
	new(batches).answer(batch, reply, nil)
	now, rest, err := script.ReadTime(reply)
	for _, key := range order {
		i, _ := strconv.Atoi(key)
		got := <-answers[i]
		want := answer{err: err}
		before := rest
		if err == nil {
			want.d, rest, want.err = c.rule.Read(before, now, &core.Ask{Cost: cost}, nil)
			if errors.Is(want.err, script.ErrReply) {
				err = want.err
			}
		}
		if got.d != want.d || fmt.Sprint(got.err) != fmt.Sprint(want.err) {
			t.Fatalf("%.200q of %.200q: %+v, want %+v", before, reply, got, want)
		}
	}
}

// TestStageOfQueue: a request that waits for the batches before it was not sent. A
// request in a batch was.
func TestStageOfQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(func([]*call) bool {
			time.Sleep(time.Second)
			return false
		}, 0, 0)
		var group sync.WaitGroup
		deadline := time.Now().Add(10 * time.Millisecond)
		for i := range 5 { // four batches may be under way
			group.Go(func() {
				_, err := q.Do(t.Context(), deadline, &request{})
				want := core.StageReply
				if i == 4 {
					want = core.StageQueued
				}
				if got := core.StageOf(err); got != want {
					t.Errorf("request %d: %v at the stage %q, want %q", i, err, got, want)
				}
			})
			synctest.Wait()
		}
		group.Wait()
		time.Sleep(2 * time.Second)
	})
}

// TestBreakerOpensBeforeBatch: requests that waited together when the breaker opened are told so.
func TestBreakerOpensBeforeBatch(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer rdb.Close()
	c, w, told := bind(t, rdb, core.PerMinute(3)), newWaiting(), make(chan error, 1)
	go func() {
		_, err := w.queue.Do(ctx, time.Time{}, &request{ledger: c})
		told <- err
	}()
	for range 5 {
		a, err := c.store.client.Begin(ctx, c.store.client.First, time.Time{}, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		a.End(server.ErrLate)
	}
	if inTime := c.batches.serve([]*call{<-w.calls}); !inTime {
		t.Error("it did not serve the batch in time")
	}
	if err := <-told; !errors.Is(err, core.ErrUnavailable) {
		t.Errorf("the caller is told %v", err)
	}
}

// TestJointMay: one script has the keys of several clients only once that is known to be right. Before, it may have the
// requests of one client, if their first key is the same.
func TestJointMay(t *testing.T) {
	counts := func(name, rule string, limits ...core.Limit) *ledger {
		return new(Store{client: new(server.Client), prefix: "sash", scripts: map[string]kept{}}).newLedger(
			core.Binding{Name: name, Rule: rule, Limits: limits})
	}
	minute, hour := core.PerMinute(10), core.PerHour(10)
	own := counts("api", "", minute, hour)
	for what, test := range map[string]struct {
		other  *ledger
		key    string
		before bool
	}{
		"the same":              {own, "k", true},
		"another limiter of it": {counts("api", "", minute, hour), "k", true},
		"a plan":                {own.with([]core.Limit{core.PerMinute(20), hour}, 0), "k", true},
		"another client":        {own, "l", false},
		"another name":          {counts("web", "", minute, hour), "k", false},
		"another rule":          {counts("api", "login", minute, hour), "k", false},
		"another first limit":   {counts("api", "", hour, minute), "k", false},
	} {
		batch := []*call{
			{Request: request{Ask: core.Ask{Key: "k"}, ledger: own}},
			{Request: request{Ask: core.Ask{Key: test.key}, ledger: test.other}},
		}
		for mode, want := range map[int32]bool{unproved: test.before, joined: true, split: false, forbidden: false} {
			var j joint
			j.mode.Store(mode)
			if j.may(batch) != want || !j.may(batch[:1]) {
				t.Errorf("%s in mode %d: want %v together, and always alone", what, mode, want)
			}
		}
	}
}

package redisstore

import (
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore/internal/script"
)

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

// readAlone reads the script's reply to a request by itself.
func (l *ledger) readAlone(reply string, a *core.Ask) (core.Decision, error) {
	return (&request{Ask: *a, ledger: l}).read(reply)
}

// readUsage reads the script's reply to a Usage by itself.
func (l *ledger) readUsage(reply string) ([]core.Usage, error) {
	q := request{ledger: l, uses: make([]core.Usage, len(l.rule.Limits))}
	if _, err := q.read(reply); err != nil {
		return nil, err
	}
	return q.uses, nil
}

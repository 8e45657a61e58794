package redisstore

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/internal/redistest"
)

// newBatch returns calls for a request with these timeouts. Their callers leave
// when the test ends.
func newBatch(t *testing.T, r request, timeouts ...time.Duration) []*call {
	calls := make(chan *call)
	q := newQueue(func(batch []*call) bool {
		for _, c := range batch {
			calls <- c
		}
		return true
	}, 0, 0)
	var batch []*call
	for _, timeout := range timeouts {
		go func() { _, _ = q.Do(t.Context(), time.Now().Add(timeout), &r) }()
		batch = append(batch, <-calls)
	}
	return batch
}

// TestToldOnce: a reply that comes after the breaker has heard of a silent server
// does not speak for the server. A patient caller gets the reply all the same.
func TestToldOnce(t *testing.T) {
	server := redistest.Start(t)
	counts := bind(t, server.Client(t), core.PerHour(10))
	if _, err := counts.askAlone(t.Context(), time.Time{}, "k", 0, true); err != nil { // the server knows the script now
		t.Fatal(err)
	}
	r := asking(counts, "k", 1, true)
	r.args = counts.rule.Call(&r.Ask)
	Settle(t, counts.store)
	own := counts.batches.server
	for name, together := range map[string]func([]*call) bool{
		"batches":  counts.batches.serve,
		"pipeline": newPipeline(counts.store, own).serve,
	} {
		t.Run(name, func(t *testing.T) {
			before := own.Counts()
			server.Pause()
			inTime := make(chan bool)
			batch := newBatch(t, r, core.DefaultTimeout, time.Minute)
			go func() { inTime <- together(batch) }()
			redistest.WaitFor(t, "the breaker to hear of the server", func() error {
				if own.Counts().TotalFailures == before.TotalFailures {
					return errors.New("it has not")
				}
				return nil
			})
			server.Resume()
			if !<-inTime {
				t.Error("the reply was late for the patient caller")
			}
			if n := own.Counts(); n.TotalFailures != before.TotalFailures+1 || n.TotalSuccesses != before.TotalSuccesses {
				t.Errorf("told %+v, before %+v", n, before)
			}
		})
	}
}

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

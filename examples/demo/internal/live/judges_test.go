package live

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/internal/redistest"
)

// TestBoundaryBurst: around a boundary the fixed window lets twice the limit through, the counter and the bucket more
// than the limit in some window, and the logs never.
func TestBoundaryBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := openPage(t, "", Settings{Limit: 10, Window: 5})
		now := time.Now()
		time.Sleep(now.Truncate(5 * time.Second).Add(5*time.Second - 100*time.Millisecond).Sub(now))
		for range 10 {
			p.request(1)
		}
		time.Sleep(200 * time.Millisecond)
		for range 10 {
			p.request(1)
		}
		if s := p.state(0); s.Judges["fixed"].Worst != 20 || s.Judges["fixed"].To-s.Judges["fixed"].From != 200 {
			t.Errorf("the fixed window: %+v, want 20 within 200 ms", s.Judges["fixed"])
		}
		for range 20 {
			time.Sleep(230 * time.Millisecond)
			p.request(1)
		}
		s := p.state(0)
		for _, name := range []string{"log", "coarse"} {
			if j := s.Judges[name]; j.Worst != 10 || j.Admitted != 10 || j.Refused != 30 {
				t.Errorf("%s: %+v", name, j)
			}
		}
		if n := s.Judges["counter"].Worst; n <= 15 || n > 20 {
			t.Errorf("the counter: %+v, want a worst window of more than 15", s.Judges["counter"])
		}
		if j := s.Judges["bucket"]; j.Worst != 19 || j.Admitted != 19 { // 10, and one in each half second
			t.Errorf("the bucket: %+v, want 10 at once and 9 evenly", j)
		}
		checkSums(t, s, 40)
	})
}

// TestLanes: the page has a lane for each judge, with words of its own, and the fixed window stands second.
func TestLanes(t *testing.T) {
	page := openPage(t, "", Settings{Limit: 1, Window: 1}).send("GET", "/", "").Body.String()
	all := lanes()
	for _, l := range all {
		if l.Text == "" || !strings.Contains(page, `<article id="`+l.ID+`"><h3>`+l.Title+` <small>`+l.Text+`</small>`) {
			t.Errorf("the page has no lane %q", l)
		}
	}
	if len(all) != len(core.Algorithms())+1 || all[0].ID != core.SlidingLog.String() || all[1].ID != fixed {
		t.Errorf("%q", all)
	}
}

// checkSums checks the sums of a state, which has all events, against the events.
func checkSums(t *testing.T, s State, events int) {
	t.Helper()
	if len(s.Events) != events || s.Seq != events {
		t.Fatalf("%d events up to %d, want %d", len(s.Events), s.Seq, events)
	}
	for name, j := range s.Judges {
		sums := map[string]int{}
		for _, e := range s.Events {
			sums[e.Verdicts[name]]++
		}
		if j.Admitted != sums[admitted] || j.Refused != sums[refused] || sums[unknown] != 0 {
			t.Errorf("%s: %+v, but the events are %v", name, j, sums)
		}
	}
}

// TestReplicas: requests in turn at four limiters on one store are admitted as by one.
func TestReplicas(t *testing.T) {
	redis := redistest.Start(t)
	for name, url := range map[string]string{"memory": "", "Redis": redis.URL()} {
		p := openPage(t, url, Settings{Limit: 10, Window: 30})
		if p.Store != name {
			t.Errorf("the store is %q, want %q", p.Store, name)
		}
		for range 40 {
			p.request(1)
		}
		s := p.state(0)
		if s.Replicas != [Replicas]int{3, 3, 2, 2} || s.Judges["log"].Worst != 10 {
			t.Errorf("%s: the replicas admitted %v, the log %+v", name, s.Replicas, s.Judges["log"])
		}
		checkSums(t, s, 40)
	}
}

// TestNews: a page gets each event once, and of very many the newest.
func TestNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := openPage(t, "", Settings{Limit: 2, Window: 1})
		for i := range 3 {
			p.request(1 + i)
		}
		s := p.state(2)
		if len(s.Events) != 1 || s.Events[0].Seq != 3 || s.Events[0].Client != 3 {
			t.Errorf("after 2: %+v", s.Events)
		}
		if s := p.state(3); s.Events == nil || len(s.Events) != 0 {
			t.Errorf("after 3: %+v", s.Events)
		}
		for range 3 * maxEvents {
			p.request(1)
			time.Sleep(10 * time.Millisecond)
		}
		s = p.state(0)
		if n := len(s.Events); n != maxEvents || s.Events[n-1].Seq != 3+3*maxEvents ||
			s.Events[0].Seq != 4+2*maxEvents {
			t.Errorf("%d events up to %d", n, s.Seq)
		}
		if got := s.Judges["log"]; got.Admitted+got.Refused != 3+3*maxEvents || got.Worst != 2 {
			t.Errorf("the log: %+v", got)
		}
	})
}

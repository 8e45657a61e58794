package live

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/sashlimit/sash/internal/redistest"
)

// TestOutageInMemory: without the store one policy serves, one refuses and one counts by itself; with the store, all
// count on.
func TestOutageInMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { outage(t, openPage(t, "", Settings{Limit: 3, Window: 20})) })
}

// TestOutageOfRedis does the same with a proxy in front of a real server.
func TestOutageOfRedis(t *testing.T) {
	outage(t, openPage(t, redistest.Start(t).URL(), Settings{Limit: 3, Window: 20}))
}

func outage(t *testing.T, p *testPage) {
	for _, name := range policyNames {
		redistest.WaitFor(t, "the first decision by the store", func() error {
			if w := p.policy(name); w.Code != 200 || w.Header().Get("X-RateLimit-Limit") != "3" {
				return fmt.Errorf("%s: %d %v", name, w.Code, w.Header())
			}
			return nil
		})
	}
	p.take(true)
	for i := range 5 {
		for name, want := range map[string]int{"open": 200, "closed": 503, "fallback": []int{200, 200, 200, 429, 429}[i]} {
			if w := p.policy(name); w.Code != want {
				t.Errorf("away, request %d under %s: %d, want %d", i, name, w.Code, want)
			}
		}
		if w := p.request(1); w.Code != []int{200, 200, 200, 429, 429}[i] {
			t.Errorf("request %d of the other store: %d", i, w.Code)
		}
	}
	s := p.state(0).Outage
	for name, want := range map[string]string{"open": "policy", "closed": "policy", "fallback": "fallback"} {
		a := s.Policies[name]
		last := a.Answers[len(a.Answers)-1]
		if !s.Away || !s.Answers || s.Changed == 0 || !a.Uncounted || a.Resumed != 0 || last.Source != want {
			t.Errorf("away, %s: %+v", name, a)
		}
	}
	p.take(false)
	for _, name := range policyNames {
		redistest.WaitFor(t, "counting to resume", func() error {
			p.policy(name)
			if a := p.state(0).Outage.Policies[name]; a.Uncounted || a.Resumed == 0 {
				return fmt.Errorf("%s: %+v", name, a)
			}
			return nil
		})
	}
	s = p.state(0).Outage
	for name, a := range s.Policies {
		if last := a.Answers[len(a.Answers)-1]; s.Away || a.Resumed < s.Changed || last.Source == "policy" {
			t.Errorf("back, %s: %+v", name, a)
		}
	}
	for range 3 {
		p.policy("open")
	}
	if w := p.policy("open"); w.Code != 429 {
		t.Errorf("back: %d, want 429", w.Code)
	}
}

// TestDeadRedis: a Redis that ends by itself is not there, although the switch has not taken it away, and it is back
// when it answers.
func TestDeadRedis(t *testing.T) {
	redis := redistest.Start(t)
	p := openPage(t, redis.URL(), Settings{Limit: 3, Window: 20})
	p.take(true)
	p.take(false)
	if s := p.state(0).Outage; s.Away || !s.Answers || s.Changed == 0 {
		t.Errorf("at first: %+v", s)
	}
	redis.Kill()
	if s := p.state(0).Outage; s.Away || s.Answers || s.Changed != 0 {
		t.Errorf("dead: %+v", s)
	}
	if w := p.request(1); w.Code != 503 {
		t.Errorf("dead: %d, want 503", w.Code)
	}
	redis.Restart()
	redistest.WaitFor(t, "Redis to answer", func() error {
		if s := p.state(0).Outage; !s.Answers || s.Changed != 0 {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
}

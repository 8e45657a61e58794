package live

import (
	"fmt"
	"testing"

	"github.com/sashlimit/sash/internal/redistest"
)

// TestOutage: without the store one policy serves, one refuses and one counts by itself; with the store, all count on.
func TestOutage(t *testing.T) {
	p := openPage(t, redistest.Start(t).URL(), Settings{Limit: 3, Window: 20})
	names := []string{"open", "closed", "fallback"}
	for _, name := range names {
		redistest.WaitFor(t, "the first decision by the store", func() error {
			if w := p.policy(name); w.Code != 200 || w.Header().Get("X-RateLimit-Limit") != "3" {
				return fmt.Errorf("%s: %d %v", name, w.Code, w.Header())
			}
			return nil
		})
	}
	p.take(true)
	for i := range 4 {
		for name, want := range map[string]int{"open": 200, "closed": 503, "fallback": []int{200, 200, 200, 429}[i]} {
			a := p.policy(name)
			s := p.state(0).Outage
			if !s.Away || !s.Policies[name].Uncounted || a.Code != want {
				t.Errorf("away, request %d under %s: %d and %+v, want %d", i, name, a.Code, s, want)
			}
		}
		if w := p.request(1); w.Code != []int{200, 200, 200, 429}[i] {
			t.Errorf("request %d of the other store: %d", i, w.Code)
		}
	}
	p.take(false)
	for _, name := range names {
		redistest.WaitFor(t, "counting to resume", func() error {
			p.policy(name)
			s := p.state(0).Outage
			if a := s.Policies[name]; a.Uncounted || a.Resumed < s.Changed {
				return fmt.Errorf("%s: %+v", name, s)
			}
			return nil
		})
	}
}

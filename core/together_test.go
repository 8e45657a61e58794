package core_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
)

// pair is a request of cost 1.
func pair(l *core.Limiter, key string) core.Pair {
	return core.Pair{Limiter: l, Request: core.Request{Key: key, Cost: 1}}
}

// TestTogetherCountsAllOrNone: what one refuses, none has counted, whichever comes first.
func TestTogetherCountsAllOrNone(t *testing.T) {
	store := memory()
	each := limiter(t, core.Config{Name: "each", Store: store, Limits: []core.Limit{core.PerMinute(2)}})
	all := limiter(t, core.Config{Name: "all", Store: store, Limits: []core.Limit{core.PerMinute(5)}})
	for name, order := range map[string]func(key string) []core.Pair{
		"each, all": func(key string) []core.Pair { return []core.Pair{pair(each, key), pair(all, "1")} },
		"all, each": func(key string) []core.Pair { return []core.Pair{pair(all, "2"), pair(each, "2"+key)} },
	} {
		pairs := order("a")
		for i := range 2 {
			d, binding := core.Together(ctx, pairs...)
			if !d.Allowed || d.Err != nil || d.Remaining != int64(1-i) || pairs[binding].Limiter != each {
				t.Fatalf("%s: %+v of pair %d", name, d, binding)
			}
		}
		for range 9 {
			d, binding := core.Together(ctx, pairs...)
			if d.Allowed || d.Limit.Requests != 2 || pairs[binding].Limiter != each || d.RetryAfter <= 0 {
				t.Fatalf("%s: %+v of pair %d", name, d, binding)
			}
		}
		admitted := 0
		for i := range 9 {
			if d, _ := core.Together(ctx, order(strconv.Itoa(i))...); d.Allowed {
				admitted++
			} else if d.Limit.Requests != 5 {
				t.Errorf("%s: %+v", name, d)
			}
		}
		if admitted != 3 {
			t.Errorf("%s: after 2 of 5 and refusals, %d were admitted, want 3", name, admitted)
		}
	}
}

// TestTogetherInParallel: no limit is ever exceeded, and at the end only what was admitted
// counts.
func TestTogetherInParallel(t *testing.T) {
	store := memory()
	each := limiter(t, core.Config{Name: "each", Store: store, Limits: []core.Limit{core.PerMinute(5)}})
	all := limiter(t, core.Config{Name: "all", Store: store, Limits: []core.Limit{core.PerMinute(30)}})
	var admitted [8]atomic.Int64
	var group sync.WaitGroup
	for i := range 32 {
		group.Go(func() {
			client := i % len(admitted)
			for range 50 {
				if d, _ := core.Together(ctx, pair(all, "all"), pair(each, strconv.Itoa(client))); d.Allowed {
					admitted[client].Add(1)
				}
			}
		})
	}
	group.Wait()
	total := int64(0)
	for i := range admitted {
		n := admitted[i].Load()
		uses, err := each.Usage(ctx, strconv.Itoa(i))
		if err != nil || n > 5 || uses[0].Used != n {
			t.Errorf("client %d: %d admitted, %+v, %v", i, n, uses, err)
		}
		total += n
	}
	if uses, err := all.Usage(ctx, "all"); err != nil || total > 30 || uses[0].Used != total {
		t.Errorf("all: %d admitted, %+v, %v", total, uses, err)
	}
}

// TestTogetherPolicies: a pair whose store cannot be asked is decided by its policy, and
// what the others have counted is given back if that refuses.
func TestTogetherPolicies(t *testing.T) {
	up := limiter(t, core.Config{})
	down := limiter(t, core.Config{Store: &fake{answer: fails(errDown)}, Observer: core.Silent})
	d, binding := core.Together(ctx, pair(down, "k"), pair(up, "k"))
	if !d.Allowed || !errors.Is(d.Err, core.ErrStore) || binding != 1 || d.Remaining != 2 {
		t.Errorf("open: %+v of pair %d", d, binding)
	}
	d, binding = core.Together(ctx, pair(up, "k"), pair(down.WithPolicy(core.FailClosed), "k"))
	if d.Allowed || !errors.Is(d.Err, core.ErrStore) || binding != 1 {
		t.Errorf("closed: %+v of pair %d", d, binding)
	}
	if d := up.AllowN(ctx, "k", 0); d.Remaining != 2 {
		t.Errorf("after a refusal of the policy: %+v", d)
	}
}

// TestTogetherGivesBackLate: units are given back although the caller has left, and a
// store that does not take them back is noticed.
func TestTogetherGivesBackLate(t *testing.T) {
	first := limiter(t, core.Config{})
	leaving, leave := context.WithCancel(ctx)
	second := limiter(t, core.Config{Store: &fake{answer: func(context.Context) (core.Decision, error) {
		leave()
		return core.Decision{}, nil
	}}})
	if d, _ := core.Together(leaving, pair(first, "k"), pair(second, "k")); d.Allowed {
		t.Errorf("%+v", d)
	}
	if d := first.AllowN(ctx, "k", 0); d.Remaining != 3 {
		t.Errorf("after a caller that left: %+v", d)
	}

	var heard notices
	lost := &fake{answer: answers(core.Decision{Allowed: true})}
	first = limiter(t, core.Config{Store: lost, Observer: &heard})
	second = limiter(t, core.Config{Store: &fake{answer: func(context.Context) (core.Decision, error) {
		lost.answer = fails(errDown)
		return core.Decision{}, nil
	}}})
	core.Together(ctx, pair(first, "k"), pair(second, "k"))
	said := heard.expect(t, "a store that is down", core.NoticeNotGivenBack)
	if len(said) == 1 && !strings.Contains(said[0].Text, errDown.Error()) {
		t.Errorf("%+v", said)
	}
}

// TestTogetherErrors: malformed calls count nothing and do not panic.
func TestTogetherErrors(t *testing.T) {
	l := limiter(t, core.Config{Observer: core.Silent})
	good := pair(l, "k")
	for name, c := range map[string]struct {
		pairs   []core.Pair
		binding int
	}{
		"no pairs":    {nil, 0},
		"nil limiter": {[]core.Pair{good, {Request: good.Request}}, 1},
		"zero":        {[]core.Pair{good, {new(core.Limiter), good.Request}}, 1},
		"charge":      {[]core.Pair{good, {l, core.Request{Key: "k", Cost: 1, Charge: true}}}, 1},
		"no key":      {[]core.Pair{good, {l, core.Request{Cost: 1}}}, 1},
	} {
		d, binding := core.Together(ctx, c.pairs...)
		if d.Allowed || !errors.Is(d.Err, core.ErrInvalid) || binding != c.binding {
			t.Errorf("%s: %+v of pair %d", name, d, binding)
		}
	}
	if d := l.AllowN(ctx, "k", 0); d.Remaining != 3 {
		t.Errorf("%+v", d)
	}
}

// TestTogetherBinding: of several admissions the tighter one is returned.
func TestTogetherBinding(t *testing.T) {
	by := func(remaining int64, reset time.Duration) core.Pair {
		d := core.Decision{Allowed: true, Limit: core.PerMinute(9), Remaining: remaining, ResetAfter: reset}
		return pair(limiter(t, core.Config{Store: &fake{answer: answers(d)}}), "k")
	}
	for i, c := range []struct {
		pairs []core.Pair
		want  int
	}{
		{[]core.Pair{by(3, 0), by(2, 0), by(4, 0)}, 1},
		{[]core.Pair{by(3, 1), by(3, 2), by(3, 2)}, 1},
		{[]core.Pair{by(3, 1), by(3, 1)}, 0},
	} {
		if d, binding := core.Together(ctx, c.pairs...); binding != c.want || !d.Allowed {
			t.Errorf("%d: %+v of pair %d, want %d", i, d, binding, c.want)
		}
	}
}

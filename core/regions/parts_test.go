package regions

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashlimit/sash/core"
)

var errDown = errors.New("down")

// told is a ledger that answers as it is told, and counts what it is asked.
type told struct {
	core.Ledger
	d     core.Decision
	err   error
	reset time.Duration
	leave func() // called during a Take
	asked int
	ask   core.Ask
}

func (l *told) Take(_ context.Context, ask core.Ask) (core.Decision, error) {
	l.ask = ask
	if l.asked++; l.leave != nil {
		l.leave()
	}
	return l.d, l.err
}

func (l *told) Usage(context.Context, string) ([]core.Usage, error) {
	l.asked++
	return []core.Usage{{Used: 1, ResetAfter: l.reset}}, l.err
}

func (l *told) Return(_ context.Context, back core.Refund) (int64, error) {
	l.asked++
	return back.Units, nil
}

// toldRule returns a rule of a limit of 8 whose regions ap, eu and us answer as they are told, of all their counts and
// of their shares.
func toldRule(t *testing.T, c Config) (r *rule, whole, shares [3]*told) {
	c.Here, c.Stores = cmp.Or(c.Here, "ap"), three()
	limits := []core.Limit{core.PerDay(8).Named("limit")}
	r, err := newStore(t, c).newRule(core.Binding{Name: "api", Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	for i := range whole {
		whole[i], shares[i] = new(told), new(told)
		r.ledgers[i].whole, r.ledgers[i].share = whole[i], shares[i]
	}
	return r, whole, shares
}

// TestStrictAnswers: a refusal and a failure have the next region asked, and an admission or the end of the caller's
// context is the answer. Of failures alone the first is told.
func TestStrictAnswers(t *testing.T) {
	refuses := func(after time.Duration) told { return told{d: core.Decision{RetryAfter: after}} }
	allows, leaves := told{d: core.Decision{Allowed: true}}, errors.New("left")
	fails := func(err error) told { return told{d: core.Decision{Allowed: true}, err: err} }
	first := errors.New("first")
	for name, c := range map[string]struct {
		answers [3]told
		ends    bool // the context ends while the first is asked
		timeout time.Duration
		want    core.Decision
		err     error
		asked   int
	}{
		"all fail":             {answers: [3]told{fails(first), fails(errDown), fails(errDown)}, err: first, asked: 3},
		"a refusal, failures":  {[3]told{refuses(5), fails(errDown), fails(errDown)}, false, 0, refuses(5).d, nil, 3},
		"the first ends first": {[3]told{refuses(5), refuses(6), refuses(7)}, false, 0, refuses(5).d, nil, 3},
		"a failure, admission": {[3]told{fails(errDown), allows, fails(first)}, false, 0, allows.d, nil, 2},
		"left, refused":        {[3]told{refuses(5), allows, allows}, true, 0, allows.d, nil, 2},
		"left, failed":         {answers: [3]told{fails(leaves), allows, allows}, ends: true, err: leaves, asked: 1},
		"no time":              {answers: [3]told{allows, allows, allows}, timeout: 1, err: core.ErrTimeout},
	} {
		synctest.Test(t, func(t *testing.T) {
			r, _, shares := toldRule(t, Config{Strict: true})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			for i := range shares {
				*shares[i] = c.answers[i]
			}
			if c.ends {
				shares[0].leave = cancel
			}
			d, err := (&strict{r}).Take(ctx, core.Ask{Key: "k", Cost: 1, Timeout: c.timeout})
			asked := shares[0].asked + shares[1].asked + shares[2].asked
			if !errors.Is(err, c.err) || (err == nil) != (c.err == nil) || asked != c.asked {
				t.Errorf("%s: %v after %d questions, want %v after %d", name, err, asked, c.err, c.asked)
			}
			if err == nil && (d.Allowed != c.want.Allowed || d.RetryAfter != c.want.RetryAfter) {
				t.Errorf("%s: %+v, want %+v", name, d, c.want)
			}
		})
	}
}

// TestStrictNotes: what is noted of a region that was asked.
func TestStrictNotes(t *testing.T) {
	allows, refuses := core.Decision{Allowed: true, Source: core.SourceCounted}, core.Decision{Source: core.SourceCounted}
	for name, c := range map[string]struct {
		region                  int
		answer                  told
		left                    bool
		answers, fails, spilled bool
	}{
		"admitted elsewhere": {1, told{d: allows}, false, true, false, true},
		"admitted here":      {0, told{d: allows}, false, true, false, false},
		"refused":            {1, told{d: refuses}, false, true, false, false},
		"remembered":         {1, told{d: core.Decision{Source: core.SourceRemembered}}, false, false, false, false},
		"down":               {1, told{d: allows, err: errDown}, false, false, true, false},
		"left":               {1, told{err: errDown}, true, false, false, false},
	} {
		r, _, _ := toldRule(t, Config{Strict: true})
		ctx, cancel := context.WithCancel(t.Context())
		if c.left {
			cancel()
		}
		_, err := (&strict{r}).ask(ctx, core.Ask{Key: "k", Cost: 1}, c.region, &c.answer)
		cancel()
		if !errors.Is(err, c.answer.err) || err != nil && !strings.Contains(err.Error(), `region "eu": `) {
			t.Errorf("%s: %v", name, err)
		}
		region := r.store.regions[c.region]
		if answers, fails := region.latest.Load() > 0, region.failing.Load() > 0; answers != c.answers || fails != c.fails {
			t.Errorf("%s: it has answered: %v, it fails: %v", name, answers, fails)
		}
		if spilled := region.spilled.Load() == 1; spilled != c.spilled {
			t.Errorf("%s: another region has admitted: %v", name, spilled)
		}
	}
}

// TestStrictParts: which region may admit a request, what time it has, and what is said where none may.
func TestStrictParts(t *testing.T) {
	r, whole, shares := toldRule(t, Config{Strict: true})
	s := &strict{r}
	candidates := func(ask core.Ask, want ...int) {
		t.Helper()
		if got := s.candidates(nil, &ask); !slices.Equal(got, want) {
			t.Errorf("%+v: regions %v, want %v", ask, got, want)
		}
	}
	for _, o := range []*core.Override{nil, {Ahead: 1}} {
		candidates(core.Ask{Cost: 2, Override: o}, 0, 1, 2)
		candidates(core.Ask{Cost: 3, Override: o}, 1, 2)
		candidates(core.Ask{Cost: 4, Override: o})
	}
	s.store.regions[1].failing.Store(1)
	candidates(core.Ask{Cost: 2}, 0, 2, 1)
	s.store.regions[0].failing.Store(1)
	candidates(core.Ask{Cost: 2}, 2, 0, 1)
	s.store.regions[0].failing.Store(0)
	s.store.regions[1].failing.Store(0)
	none, all := r.ledgers[0].share, &core.Override{Limits: []core.Limit{core.PerDay(300)}}
	r.ledgers[0].share = nil
	for _, o := range []*core.Override{{Charge: true}, all} {
		candidates(core.Ask{Cost: 1, Override: o}, 1, 2)
	}
	if n, err := r.Return(t.Context(), core.Refund{Key: "k", Units: 2}); n != 2 || err != nil || whole[0].asked != 1 {
		t.Errorf("gave %d back to a region without a share, %v", n, err)
	}
	r.ledgers[0].share = none
	var text string
	r.binding.Notice = func(_, said string) { text = said }
	d, err := s.askInVain(t.Context(), core.Ask{Cost: 4})
	if err != nil || d.Region != "us" || shares[2].asked != 1 || !strings.Contains(text, fmt.Sprint(r.binding.Limits)) {
		t.Errorf("%+v, %v, %q", d, err, text)
	}
	for home, i := range map[string]int{"ap": 0, "eu": 1} {
		r.store.config.Home = func(string) string { return home }
		before := whole[i].asked
		if _, err := s.Take(t.Context(), core.Ask{Cost: 4}); err != nil || whole[i].asked != before+1 {
			t.Errorf("at home in %s: %v", home, err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			left time.Duration
			last bool
			want time.Duration
			ok   bool
		}{{2, false, 1, true}, {1, true, 1, true}, {1, false, 0, false}, {0, true, 0, false}, {9, true, 9, true}} {
			if got, ok := part(time.Second, time.Now().Add(c.left), c.last); got != c.want || ok != c.ok {
				t.Errorf("%+v: %v, %v", c, got, ok)
			}
		}
		if got, ok := part(0, time.Now(), false); got != 0 || !ok {
			t.Errorf("without a timeout: %v, %v", got, ok)
		}
	})
}

// TestUsageAndReturn: usage is of all regions, or of the home alone, and a unit goes back to where it was counted.
func TestUsageAndReturn(t *testing.T) {
	for resets, want := range map[[3]time.Duration]time.Duration{
		{0, 0, 0}: 0, {0, 5, 3}: 3, {3, 5, 0}: 3, {5, 0, 3}: 3, {0, 0, 4}: 4, {4, 0, 0}: 4, {3, 4, 5}: 3,
	} {
		r, whole, _ := toldRule(t, Config{})
		for i := range whole {
			whole[i].reset = resets[i]
		}
		if uses, err := r.Usage(t.Context(), "k"); err != nil || uses[0].Used != 3 || uses[0].ResetAfter != want {
			t.Errorf("%v: %+v, %v, want fewer after %v", resets, uses, err, want)
		}
	}
	for _, c := range []struct {
		home, region string
		whole        bool
		asked        int // the region, or -1 for an error
	}{
		{"", "", false, 0}, {"", "us", false, 2}, {"ap", "", true, 0}, {"eu", "eu", true, 1}, {"", "mars", false, -1},
		{"mars", "", false, -1},
	} {
		r, whole, shares := toldRule(t, Config{Home: func(string) string { return c.home }})
		n, err := r.Return(t.Context(), core.Refund{Key: "k", Units: 2, Region: c.region})
		if (err != nil) != (c.asked < 0) || (n == 2) != (err == nil) || err != nil && n != 0 {
			t.Errorf("%+v: gave %d, %v", c, n, err)
		}
		for i := range whole {
			if w, s := whole[i].asked, shares[i].asked; (w == 1) != (i == c.asked && c.whole) ||
				(s == 1) != (i == c.asked && !c.whole) {
				t.Errorf("%+v: region %d was given back %d times, and its share %d times", c, i, w, s)
			}
		}
		uses, err := r.Usage(t.Context(), "k")
		all := map[string]int64{"": 3, "ap": 1, "eu": 1}[c.home]
		if (err != nil) != (all == 0) || err == nil && uses[0].Used != all {
			t.Errorf("%+v: %+v, %v, want %d used", c, uses, err, all)
		}
	}
}

// TestShortest: a check is about the limiter that waits for the shortest time.
func TestShortest(t *testing.T) {
	s := newStore(t, Config{Here: "ap", Stores: three()})
	for _, timeout := range []time.Duration{0, 3, 1, 2, 0} {
		b := core.Binding{Name: "api", Limits: []core.Limit{core.PerDay(8).Named("limit")}, Timeout: timeout}
		if _, err := s.Bind(b); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.shortest.Load(); got != 1 {
		t.Errorf("%d, want 1", got)
	}
	for _, unmade := range []*Store{nil, {}} {
		if err := unmade.Check(t.Context()); err != errUnmade {
			t.Errorf("%v, want %v", err, errUnmade)
		}
	}
	var r region
	r.failing.Store(1)
	if r.silent(silence+1) || !r.silent(silence+2) {
		t.Error("it is not silent 2 s after it has failed")
	}
}

// TestTableParts: what is given up, what is overdue, what goes first, and what is over.
func TestTableParts(t *testing.T) {
	const now = time.Minute
	table := newTable(2, defaultLookEvery)
	recent, due := &client{sent: now - silence}, &client{due: 1}
	table.clients = map[holder]*client{{1}: recent, {2}: due}
	if table.giveUp(now) || len(table.clients) != 2 {
		t.Error("a client that is due or has asked lately is given up")
	}
	recent.sent--
	if !table.giveUp(now) || len(table.clients) != 1 || table.clients[holder{2}] != due {
		t.Errorf("%v is left, want the one that is due", slices.Collect(maps.Keys(table.clients)))
	}
	for _, w := range []*wish{
		{left: 0.5, client: &client{due: now - silence}}, {left: 0.1, client: &client{due: now}},
		{left: 0.9, client: &client{due: now - silence - 1}},
	} {
		heap.Push(&table.queue, w)
	}
	if clients, overdue := table.count(now); clients != 1 || overdue != 1 {
		t.Errorf("%d clients, %d overdue, want 1 of each", clients, overdue)
	}
	if batch := table.batch(now); len(batch) != 3 || batch[0].left != 0.1 || batch[1].left != 0.5 {
		t.Errorf("%v, want those with the least left first", batch)
	}
	old, newest := &wish{client: &client{}}, &wish{client: &client{}}
	old.client, newest.client.wish = newest.client, newest
	kept := newest.client
	if table.end(old); kept.wish != newest {
		t.Error("a look that is over ends the next")
	}
	if table.end(newest); kept.wish != nil {
		t.Error("a look that is over is kept")
	}
	c := &client{looks: make([]look, 2)}
	table.learn(c, 1, []core.Usage{{Used: 4}}, []core.Usage{{Used: 1, ResetAfter: 5}}, look{sent: 2, came: 3})
	if want := (look{2, 3, 4, 1, 8}); c.looks[1] != want || c.looks[0] != (look{}) {
		t.Errorf("%+v, want %+v", c.looks, want)
	}
}

// TestRooms: of several limits each has its own looks, and what one of them says of all stands.
func TestRooms(t *testing.T) {
	const now = time.Hour
	r, _, _ := toldRule(t, Config{})
	r.binding.Limits = []core.Limit{core.PerDay(90).Named("a"), core.PerDay(60).Named("b")}
	q := &question{rule: r, limits: r.binding.Limits, home: -1, holder: holder{1}}
	c := &client{looks: make([]look, 4)}
	r.store.table.clients[q.holder] = c
	uses := func(a, b int64) []core.Usage {
		return []core.Usage{{Used: a, ResetAfter: time.Minute}, {Used: b, ResetAfter: time.Minute}}
	}
	r.store.table.learn(c, 0, uses(1, 2), uses(10, 0), look{sent: 1, came: now})
	r.store.table.learn(c, 1, uses(1, 2), uses(20, 30), look{sent: now, came: now})
	v := view{takes: true}
	v.read(q, now)
	want := []room{{60, 30, 1}, {30, 20, 2}}
	if !slices.Equal(v.rooms, want) || !v.known || !v.lowers || !v.short || v.stale {
		t.Errorf("%+v, want %+v", v, want)
	}
	c.looks[2], c.looks[3] = look{}, look{} // the second limit, of which no look lowers anything
	v = view{}
	v.read(q, now)
	if !v.lowers || v.short || v.rooms[1].left != 60 || v.rooms[1].most != 60 {
		t.Errorf("%+v", v)
	}
	c.looks[0], c.looks[1] = look{sent: 1, came: now, used: 1}, look{sent: 1, came: now, used: 1, leaves: now + 1}
	v = view{}
	v.read(q, now)
	if !v.stale {
		t.Errorf("a unit of the first of two regions has left since: %+v", v)
	}
	for limits, want := range map[string]int{"a": 0, "b": 1, "c": 0} {
		if got := limitIndex(&core.Decision{Limit: core.Limit{Name: limits}}, r.binding.Limits); got != want {
			t.Errorf("limit %q is number %d, want %d", limits, got, want)
		}
	}
	for cost, want := range map[int64]int{3: -1, 4: 0, 8: 0, 9: -1} {
		v := view{rooms: []room{{left: 3, most: 3}}}
		if got := v.exceeded(&core.Ask{Cost: cost}, []core.Limit{core.PerDay(8)}); got != want {
			t.Errorf("a cost of %d where 3 of 8 are left exceeds limit %d, want %d", cost, got, want)
		}
	}
	for i, want := range []bool{false, false, true} {
		if shares, some := shareOf([]core.Limit{core.PerDay(1)}, i, 3); some != want || some && shares[0].Requests != 1 {
			t.Errorf("region %d has %v of 1 unit", i, shares)
		}
	}
}

// TestEventualAnswers: who has a look sent, who waits for it, and what a region alone is asked.
func TestEventualAnswers(t *testing.T) {
	refused := core.Decision{RetryAfter: 5, Limit: core.Limit{Name: "limit", Requests: 8}}
	never := core.Decision{RetryAfter: core.Never, Limit: refused.Limit}
	allowed := core.Decision{Allowed: true, Limit: core.Limit{Name: "limit", Requests: 8}}
	few := &core.Override{Limits: []core.Limit{core.PerDay(6).Named("limit")}}
	for name, c := range map[string]struct {
		ask    core.Ask
		home   string
		answer told
		err    error
		whole  int // questions to this region
		share  int
		looks  int // clients that are looked at
	}{
		"a peek":        {core.Ask{Cost: 1, Peek: true}, "", told{d: allowed}, nil, 1, 0, 0},
		"a cost of 0":   {core.Ask{}, "", told{d: allowed}, nil, 1, 0, 0},
		"a charge":      {core.Ask{Cost: 1, Override: &core.Override{Charge: true}}, "", told{d: allowed}, nil, 1, 0, 0},
		"a request":     {core.Ask{Cost: 1}, "", told{d: allowed}, nil, 0, 1, 1},
		"above a share": {core.Ask{Cost: 3}, "", told{d: allowed}, nil, 1, 0, 1},
		"other limits":  {core.Ask{Cost: 1, Override: few}, "", told{d: allowed}, nil, 1, 0, 1},
		"above all":     {core.Ask{Cost: 9}, "", told{d: never}, nil, 1, 0, 0},
		"refused":       {core.Ask{Cost: 1}, "", told{d: refused}, nil, 1, 1, 1},
		"at home":       {core.Ask{Cost: 1}, "ap", told{d: allowed}, nil, 1, 0, 1},
		"far from home": {core.Ask{Cost: 1}, "eu", told{d: allowed}, nil, 1, 0, 1},
		"a failure":     {core.Ask{Cost: 1}, "", told{err: errDown}, errDown, 0, 1, 0},
		"failing peek":  {core.Ask{Cost: 1, Peek: true}, "", told{err: errDown}, errDown, 1, 0, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			r, whole, shares := toldRule(t, Config{Home: func(string) string { return c.home }})
			for i := range whole {
				whole[i].d, whole[i].err, whole[i].reset = c.answer.d, c.answer.err, time.Second
				shares[i].d, shares[i].err = c.answer.d, c.answer.err
			}
			e := &eventual{r, [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}
			c.ask.Key = "k"
			d, err := e.Take(t.Context(), c.ask)
			takes := 0
			if whole[0].ask.Key == "k" {
				takes = 1
			}
			if !errors.Is(err, c.err) || err == nil && d.Allowed != c.answer.d.Allowed || takes != c.whole ||
				shares[0].asked != c.share || len(r.store.table.clients) != c.looks {
				t.Errorf("%s: %+v, %v; asked of all %d times and of the share %d times, %d looked at; want %+v",
					name, d, err, takes, shares[0].asked, len(r.store.table.clients), c)
			}
			if err == nil && !d.Allowed && d.RetryAfter != c.answer.d.RetryAfter {
				t.Errorf("%s: %+v", name, d)
			}
			time.Sleep(time.Minute)
		})
	}
	synctest.Test(t, func(t *testing.T) {
		r, whole, shares := toldRule(t, Config{Here: "eu", Home: func(string) string { return "ap" }})
		q := &question{rule: r, ask: core.Ask{Cost: 1}, limits: r.binding.Limits, home: 0}
		v := view{short: true, lowers: true, rooms: []room{{left: 8}}}
		if d, err := q.decide(t.Context(), &v); d.Allowed || err != nil || whole[1].asked+shares[1].asked != 0 {
			t.Errorf("far from home, in the first region: %+v, %v", d, err)
		}
		q.home, v.short = -1, false // a peek where a region is silent
		whole[1].d = allowed
		if d, err := q.decide(t.Context(), &view{lowers: true, rooms: []room{{left: 8, most: 8}}}); err != nil || !d.Allowed {
			t.Errorf("%+v, %v", d, err)
		}
		q.ask.Cost, whole[1].d.Remaining = 0, 1
		for _, left := range []int64{0, -3} { // nothing is left, or less
			d, err := q.decide(t.Context(), &view{known: true, lowers: true, rooms: []room{{left: left, most: left}}})
			if err != nil || !d.Allowed || d.Remaining != 0 {
				t.Errorf("%d left: %+v, %v, want none to remain", left, d, err)
			}
		}
		if whole[1].asked != 3 || shares[1].asked != 0 {
			t.Errorf("of all %d questions, of the share %d", whole[1].asked, shares[1].asked)
		}
		d := allowed
		d.Remaining = 6
		v = view{known: true, short: true, rooms: []room{{left: 6}}}
		look := q.wish(&v, &d, time.Minute)
		if w := r.store.table.clients[q.holder].wish; look != nil || w == nil || w.left != 0.75 {
			t.Errorf("a client that is known: %+v, and waits for %v, want a look and no wait", w, look)
		}
		time.Sleep(time.Minute)
		text := ""
		r.binding.Notice = func(_, said string) { text = said }
		now := r.store.now()
		r.answered(r.store.regions[2], errDown, now, now)
		r.answered(r.store.regions[2], errDown, now+silence+1, now+silence+1)
		if !strings.Contains(text, `"us" has not answered for 2s`) {
			t.Errorf("the notice says %q", text)
		}
	})
	r, _, _ := toldRule(t, Config{Home: func(string) string { return "mars" }})
	if _, err := (&eventual{rule: r}).Take(t.Context(), core.Ask{Key: "k", Cost: 1}); err == nil {
		t.Error("at home nowhere")
	}
}

// TestRoom: what is left of a limit by the looks at two other regions.
func TestRoom(t *testing.T) {
	const now, every = 2 * time.Hour, defaultLookEvery
	r, whole, _ := toldRule(t, Config{})
	r.binding.Limits[0].Window = time.Hour
	e := &eventual{rule: r}
	q := &question{rule: r, limits: r.binding.Limits, home: -1}
	for name, c := range map[string]struct {
		look   look
		left   int64
		stale  bool
		leaves time.Duration
	}{
		"one unit":          {look{1, now, 0, 1, now + time.Second}, 7, false, time.Second},
		"has left since":    {look{now, now, 0, 1, now}, 7, true, every},
		"nothing, long ago": {look{1, now, 0, 0, 0}, 8, false, 0},
		"about to leave":    {look{now, now, 0, 2, now + 1}, 6, false, time.Millisecond},
		"a window ago":      {look{1, now - time.Hour, 0, 2, now + 1}, 8, false, 0},
		"less than one ago": {look{now, now - time.Hour + 1, 0, 2, now + time.Second}, 6, false, time.Second},
	} {
		var v view
		room := v.readLimit(q, &client{looks: []look{c.look, {}}}, 0, now)
		if room.left != c.left || room.most != c.left || v.stale != c.stale || v.leaves != c.leaves {
			t.Errorf("%s: %+v, stale: %v, leaves after %v", name, room, v.stale, v.leaves)
		}
	}
	for asked, want := range map[time.Duration]int64{0: 2, now - 2*time.Hour + 1: 8} {
		v, old := view{takes: true, asked: asked}, look{now - 2*time.Hour + 1, now - time.Hour, 9, 5, now}
		if room := v.readLimit(q, &client{looks: []look{old, old}}, 0, now); room.most != want {
			t.Errorf("a window after looks, awaited since %v: %+v, want %d", asked, room, want)
		}
	}
	v := &view{rooms: []room{{left: 0, most: 0}}}
	charge := core.Ask{Cost: 1, Override: &core.Override{Charge: true}}
	if i, j := v.exceeded(&core.Ask{Cost: 1}, r.binding.Limits), v.exceeded(&charge, r.binding.Limits); i != 0 || j != -1 {
		t.Errorf("a request exceeds limit %d and a charge limit %d, want 0 and none", i, j)
	}
	if o := v.override(&charge, r.binding.Limits); !o.Charge || o.Limits[0].Requests != 1 {
		t.Errorf("%+v, want a charge by the least limit", o)
	}
	if d := q.refuse(0, v); d.RetryAfter != silence || d.Remaining != 0 || d.Allowed {
		t.Errorf("%+v, want it after %v", d, silence)
	}
	whole[0].err = errDown
	w := &wish{client: &client{}}
	w.client.wish = w
	if e.look(w); w.client.wish != nil || whole[1].asked != 0 {
		t.Errorf("the look goes on after its own region has failed: %+v", w)
	}
}

// TestAwait: after a look a request has the time that is left.
func TestAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _, _ := toldRule(t, Config{})
		ended, cancel := context.WithCancelCause(t.Context())
		cancel(errDown)
		for waits, want := range map[time.Duration]time.Duration{40: 60, 99: 1, 100: 1, 200: 1} {
			q, began := &question{rule: r, ask: core.Ask{Timeout: 100}}, r.store.now()
			time.Sleep(waits)
			if err := q.await(t.Context(), over, began); err != nil && waits < 100 || q.ask.Timeout != want {
				t.Errorf("after %d ns: %v, %d left, want %d", waits, err, q.ask.Timeout, want)
			}
		}
		const s = time.Second
		for timeout, waits := range map[time.Duration]time.Duration{0: silence, s: s * 3 / 4, time.Minute: silence} {
			q, began := &question{rule: r, ask: core.Ask{Timeout: timeout}}, r.store.now()
			err := q.await(t.Context(), nil, began)
			if passed := r.store.now() - began; err != nil || passed != waits || q.ask.Timeout != max(0, timeout-waits) {
				t.Errorf("of %v: waits for %v, %v, want %v; then %v are left", timeout, passed, err, waits, q.ask.Timeout)
			}
		}
		q := &question{rule: r}
		if err := q.await(ended, nil, r.store.now()); err != errDown {
			t.Errorf("%v, want %v", err, errDown)
		}
	})
}

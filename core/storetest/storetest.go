package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/model"
)

// Run runs the suite as parallel subtests of t. It takes a few seconds. Run calls factory once for each subtest;
// factory may return the same store every time, since each subtest uses its own names.
func Run(t *testing.T, factory func(t *testing.T) core.Store) {
	for _, c := range []struct {
		name string
		test func(*suite)
	}{
		{"Histories", (*suite).histories},
		{"Concurrency", (*suite).concurrency},
		{"Reset", (*suite).reset},
		{"Identity", (*suite).identity},
		{"Keys", (*suite).keys},
		{"Extremes", (*suite).extremes},
		{"Charge", (*suite).charge},
		{"Return", (*suite).returns},
		{"Plans", (*suite).plans},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.test(&suite{T: t, store: factory(t), name: fmt.Sprintf("%s %x", c.name, rand.Uint64())})
		})
	}
}

// suite is one subtest: a store, and a name that no other subtest and no earlier run uses for its counts.
type suite struct {
	*testing.T
	store core.Store
	name  string
}

var ctx = context.Background()

// using returns a limit by an algorithm. Several buckets in one rule need names.
func using(l core.Limit, a core.Algorithm, i int) core.Limit {
	if a.IsLinear() && i > 0 {
		l.Name = fmt.Sprint(i)
	}
	return l.Using(a)
}

// eachAlgorithm returns limits with each algorithm in turn, and, where there are several, with
// all algorithms side by side, for each that may come first.
func eachAlgorithm(limits ...core.Limit) (all [][]core.Limit) {
	algorithms := core.Algorithms()
	for first := range algorithms {
		same, mixed := slices.Clone(limits), slices.Clone(limits)
		for i := range limits {
			same[i] = using(limits[i], algorithms[first], i)
			mixed[i] = using(limits[i], algorithms[(first+i)%len(algorithms)], i)
		}
		all = append(all, same)
		if len(limits) > 1 {
			all = append(all, mixed)
		}
	}
	return all
}

// each calls test with each of the rules and its index, in parallel subtests with their own counts.
func (s *suite) each(rules [][]core.Limit, test func(s *suite, i int, limits []core.Limit)) {
	for i, limits := range rules {
		s.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			test(&suite{T: t, store: s.store, name: fmt.Sprintf("%s %d", s.name, i)}, i, limits)
		})
	}
}

// perYear returns a limit with the longest window. The windows of a counter begin at fixed
// times, and where one begins during a subtest, other numbers remain than it expects: by an
// hour's window that would happen to one run in hundreds.
func perYear(n int64) core.Limit { return core.Per(n, core.MaxWindow) }

// limiter returns a limiter with a long timeout, because the suite does not test the speed of a store.
func (s *suite) limiter(limits ...core.Limit) *core.Limiter {
	s.Helper()
	l, err := core.New(core.Config{
		Name: s.name, Store: s.store, Limits: limits, OnStoreError: core.FailClosed, Timeout: 20 * time.Second,
		Observer: core.Silent,
	})
	if err != nil {
		s.Fatal(err)
	}
	return l
}

func (s *suite) rule(l *core.Limiter, name string, limits ...core.Limit) *core.Limiter {
	s.Helper()
	r, err := l.Rule(name, limits...)
	if err != nil {
		s.Fatal(err)
	}
	return r
}

// admits asks for n units and fails unless they are admitted and leave the given
// number remaining.
func (s *suite) admits(what string, l *core.Limiter, key string, n, remaining int64) core.Decision {
	s.Helper()
	d := l.AllowN(ctx, key, n)
	if d.Err != nil || !d.Allowed || d.Remaining != remaining {
		s.Fatalf("%s: %+v, want it allowed with %d remaining", what, d, remaining)
	}
	return d
}

// refuses asks for n units and fails unless they are refused with the given number
// remaining.
func (s *suite) refuses(what string, l *core.Limiter, key string, n, remaining int64) core.Decision {
	s.Helper()
	d := l.AllowN(ctx, key, n)
	if d.Err != nil || d.Allowed || d.Remaining != remaining {
		s.Fatalf("%s: %+v, want it refused with %d remaining", what, d, remaining)
	}
	return d
}

// histories compares random histories, answer by answer, with the model.
func (s *suite) histories() {
	ms := time.Millisecond
	rules := slices.Concat(
		eachAlgorithm(core.Per(1, ms)), eachAlgorithm(core.Per(5, 10*ms)),
		eachAlgorithm(core.Per(40, 33333*time.Microsecond)),
		eachAlgorithm(core.Per(3, 5*ms), core.Per(10, 40*ms)),
		eachAlgorithm(core.Per(3, 5*ms), core.Per(8, 20*ms), core.Per(50, time.Hour), core.Per(20, 60*ms)),
	)
	many := slices.Clone(rules[len(rules)-1])
	rules = append(rules, append(many, core.Per(1<<40, core.MaxWindow).Using(core.SlidingCounter)))
	s.each(rules, func(s *suite, i int, limits []core.Limit) {
		s.history(limits, rand.New(rand.NewPCG(uint64(i), 5)))
	})
}

// concurrency hammers a few keys from many goroutines and checks every window.
func (s *suite) concurrency() {
	const goroutines, keys = 16, 3
	limit := core.Per(20, 30*time.Millisecond)
	l := s.limiter(limit)
	var outcomes [goroutines][keys][]Outcome
	var group sync.WaitGroup
	deadline := time.Now().Add(400 * time.Millisecond)
	for g := range goroutines {
		group.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 9))
			for time.Now().Before(deadline) {
				k, n := rng.IntN(keys), 1+rng.Int64N(2)
				d := l.AllowN(ctx, fmt.Sprint("client ", k), n)
				if d.Err != nil {
					s.Error(d.Err)
					return
				}
				outcomes[g][k] = append(outcomes[g][k], Outcome{At: d.At, Allowed: d.Allowed, Cost: n})
			}
		})
	}
	group.Wait()
	for k := range keys {
		var all []Outcome
		for g := range outcomes {
			all = append(all, outcomes[g][k]...)
		}
		if err := CheckLogs(all, limit); err != nil {
			s.Errorf("client %d: %v", k, err)
		}
	}
}

func (s *suite) reset() {
	for i, limits := range eachAlgorithm(perYear(2), perYear(1).Named("second")) {
		a, b := fmt.Sprintf("a %d", i), fmt.Sprintf("b %d", i)
		l := s.limiter(limits...)
		other := s.rule(l, "other", limits[0])
		s.admits("first", l, a, 1, 0)
		s.refuses("second", l, a, 1, 0)
		s.admits("another client", l, b, 1, 0)
		s.admits("another rule", other, a, 2, 0)
		ended, cancel := context.WithCancel(ctx)
		cancel()
		if err := l.Reset(ended, a); err != context.Canceled {
			s.Fatalf("a reset with an ended context: %v", err)
		}
		s.refuses("after that", l, a, 1, 0)
		if err := l.Reset(ctx, a); err != nil {
			s.Fatal(err)
		}
		if err := l.Reset(ctx, "nobody"); err != nil {
			s.Fatal(err)
		}
		s.admits("after the reset", l, a, 1, 0)
		s.refuses("another client keeps its count", l, b, 1, 0)
		s.refuses("another rule keeps its count", other, a, 1, 0)
	}
}

// identity checks that equal limiters share a count, and others do not.
func (s *suite) identity() {
	day := core.PerDay(5)
	base := s.limiter(day)
	s.admits("the first", base, "k", 3, 2)
	s.admits("the same again", s.limiter(day), "k", 0, 2)
	s.admits("the same by its default name", s.limiter(day.Named("24h0m0s")), "k", 0, 2)
	login := s.rule(base, "login", day)
	s.admits("a rule", login, "k", 1, 4)
	s.admits("the same rule", s.rule(s.limiter(core.PerHour(9)), "login", day), "k", 0, 4)

	others := []*core.Limiter{
		s.rule(base, "logout", day),
		s.limiter(day.Named("daily")),
		s.limiter(core.Per(5, 23*time.Hour).Named("24h0m0s")),
		(&suite{T: s.T, store: s.store, name: s.name + "/login"}).limiter(day),
		(&suite{T: s.T, store: s.store, name: s.name + "/"}).limiter(day),
	}
	for _, a := range core.Algorithms() {
		if a != day.Algorithm {
			others = append(others, s.limiter(day.Using(a)))
		}
	}
	for i, l := range others {
		s.admits(fmt.Sprintf("limiter %d is another", i), l, "k", 0, 5)
		s.admits(fmt.Sprintf("limiter %d takes", i), l, "k", 1, 4)
	}
	s.admits("the first is untouched", base, "k", 0, 2)
}

// keys checks that each hostile key has a count of its own.
func (s *suite) keys() {
	long := strings.Repeat("k", 10_000)
	keys := []string{
		"a", "A", " a", "a ", "a b", "a:b", "a/b", "a|b", "a%2Fb", "a%252Fb", "%", "%%", "{", "}", "{}", "}{", "{a}",
		"{a", "a}b", "{}a", "*", "?", "[a]", "#", "##", "\\", "\"", "'",
		"\x00", "\x00\x00", "a\x00", "\n", "\r\n", "a\r\nb", "\t", "\x7f", "\xff", "\xff\xfe", "\xc3\x28", "\u00e9",
		"e\u0301", "日本", "🙂", "0", "-1", "1e3", "nil", "false",
		"ip:198.51.100.7", "ip:2001:db8::/64", long, long + "x", long + "y", "x" + long, strings.Repeat("\x00", 10_000),
		strings.Repeat("}", 500), strings.Repeat("%", 64), strings.Repeat("a", 63), strings.Repeat("a", 64),
		strings.Repeat("a", 65), strings.Repeat("a", 1<<20),
	}
	var limits []core.Limit
	for _, a := range core.Algorithms() {
		limits = append(limits, perYear(100).Using(a).Named(a.String()))
	}
	l := s.limiter(limits...)
	for i, key := range keys {
		s.admits(fmt.Sprintf("key %d, %.20q, first", i, key), l, key, int64(i+1), int64(99-i))
	}
	for i, key := range keys {
		s.admits(fmt.Sprintf("key %d, %.20q, second", i, key), l, key, 0, int64(99-i))
		if err := l.Reset(ctx, key); err != nil {
			s.Fatal(err)
		}
		s.admits(fmt.Sprintf("key %d, %.20q, after its reset", i, key), l, key, 0, 100)
	}
}

// extremes uses the longest window and the largest limits.
func (s *suite) extremes() {
	for _, a := range core.Algorithms() {
		for _, n := range []int64{core.MaxCounterRequests, core.MaxLogRequests, 1} {
			limit := core.Per(n, core.MaxWindow).Using(a)
			config := core.Config{Store: s.store, Limits: []core.Limit{limit}}
			if _, err := core.New(config); n > 1 && err != nil {
				continue // more than a limit of the algorithm may allow
			}
			s.extreme(limit)
		}
		const requests = 10_000 // of a bucket one comes back within an hour
		many := s.limiter(core.Per(requests, core.MaxWindow).Using(a))
		for i := range int64(3000) {
			s.admits("one of many", many, a.String(), 1+i%2, requests-i-1-(i+1)/2)
		}
	}
}

func (s *suite) extreme(limit core.Limit) {
	l, key, n := s.limiter(limit), fmt.Sprint(limit), limit.Requests
	var client model.Client
	for what, n := range []int64{n, 1, n, n + 1} {
		got := l.AllowN(ctx, key, n)
		want := client.Ask([]core.Limit{limit}, got.At, core.Ask{Cost: n})
		want.Source, want.Region = got.Source, got.Region
		if got != want {
			s.Fatalf("%v, request %d, of %d units:\n got %+v\nwant %+v", limit, what, n, got, want)
		}
	}
}

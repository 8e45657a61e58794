package bench

import (
	"bufio"
	"reflect"
	"strings"
	"testing"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/internal/redistest"
)

// openLab returns the lab of a server that runs until the test ends.
func openLab(tb testing.TB) *lab {
	l, err := newLab(redistest.Start(tb).Addr())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(l.close)
	return l
}

// TestActors: a recorded command has the same effect as a call of its library.
// checkCounts asks the library for the counts.
func TestActors(t *testing.T) {
	l := openLab(t)
	counter := core.PerHour(unlimited).Using(core.SlidingCounter)
	makes := []newActor{
		(*lab).redisRate,
		(*lab).redisRateRefused,
		(*lab).one,
		func(l *lab) (*actor, error) { return l.sortedSet(100, 10, unlimited) },
		func(l *lab) (*actor, error) { return l.reference(100, 10) },
	}
	for _, t := range []traffic{ // name, clients, prefilled, together, goal, limits
		{"log", 1000, 1, 1, Goal{}, only(core.PerHour(10))},
		{"3 logs", 1000, 5, 1, Goal{}, three(core.PerHour(100))},
		{"counter", 1000, 1, 1, Goal{}, only(counter)},
		{"3 counters", 1000, 1, 1, Goal{}, three(counter)},
		{"log", 96, 1, together, Goal{}, only(core.PerHour(10))},
		{"3 counters", 96, 1, together, Goal{}, three(counter)},
	} {
		makes = append(makes, func(l *lab) (*actor, error) { return l.fresh(t) })
	}
	for _, t := range []traffic{
		{"refused log", 100, 0, 1, Goal{}, only(core.PerHour(10))},
		{"refused counter", 100, 0, 1, Goal{}, only(core.PerHour(10).Using(core.SlidingCounter))},
		{"refused log", 96, 0, together, Goal{}, only(core.PerHour(10))},
	} {
		makes = append(makes, func(l *lab) (*actor, error) { return l.refused(t) })
	}
	var actors []*actor
	for _, make := range makes {
		a, err := make(l)
		if err != nil {
			t.Fatal(err)
		}
		actors = append(actors, a)
	}
	const rounds = 10 // a limit of 10 is used up before, so the actor resets its counts
	micros, err := l.race(actors, 4*rounds)
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range actors {
		if m := median(micros[i]); !(m > 0) {
			t.Errorf("%s takes %v us", a.name, m)
		}
		if a.checkCounts != nil {
			if err := a.checkCounts(); err != nil {
				t.Errorf("%s: %v", a.name, err)
			}
		}
	}
}

func TestSteady(t *testing.T) {
	for _, n := range []int{1, together} {
		rows, err := steady{"log", 96, 20, n, Goal{}, only(core.PerHour(1000))}.measure(openLab(t), 3)
		if err != nil {
			t.Fatal(err)
		}
		log := rows[1]
		if len(log.Values) != 3 || !(median(log.Values) > 1) || !strings.Contains(log.Note, "expire per request") {
			t.Errorf("%+v", log)
		}
		t.Log(log.Note)
	}
}

// TestActorsAreChecked: checkCounts reports requests that were not counted, and run
// reports error replies.
func TestActorsAreChecked(t *testing.T) {
	l := openLab(t)
	a, err := l.fresh(traffic{"log", 10, 1, 1, Goal{}, only(core.PerHour(10))})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.run(a, 10*pipelined); err != nil { // 16 requests each
		t.Fatal(err)
	}
	if err := a.checkCounts(); err == nil {
		t.Error("16 requests at a limit of 10: no error")
	}
	a.command, a.commands = func(int) []byte { return encode("EVALSHA", "nothing", "0") }, nil
	if err := l.run(a, pipelined); err == nil || !strings.Contains(err.Error(), "NOSCRIPT") {
		t.Errorf("%v", err)
	}
}

func TestDecideAll(t *testing.T) {
	l := openLab(t)
	a, err := l.fresh(traffic{"log", 96, 1, together, Goal{}, only(core.PerHour(10))})
	if err != nil {
		t.Fatal(err)
	}
	micros, err := l.cost(6, func() error { return l.run(a, 96) })
	if err != nil || micros == 0 || a.next != 96 {
		t.Errorf("96 decisions, 16 in a script: %d, %d us, %v", a.next, micros, err)
	}
	if err := a.checkCounts(); err != nil {
		t.Error(err)
	}
	if _, err := l.fresh(traffic{"log", 97, 1, together, Goal{}, only(core.PerHour(10))}); err == nil {
		t.Error("97 clients fit scripts for 16")
	}
}

func TestSortedSet(t *testing.T) {
	l := openLab(t)
	set, err := l.sortedSet(1, 0, 3)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []int64{1, 1, 1, 0, 0} {
		err := l.wire.pipeline(set.commands[0], 1, func(reply any) error {
			if got := reply.([]any)[0]; got != want {
				t.Errorf("request %d: %v, want %d", i, got, want)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestRESP(t *testing.T) {
	for _, c := range []struct {
		wire string
		want any
	}{
		{"+OK\r\n", "OK"},
		{":-7\r\n", int64(-7)},
		{"$3\r\na\rb\r\n", "a\rb"},
		{"$-1\r\n", nil},
		{"-ERR no\r\n", replyError("ERR no")},
		{string(encode("a", "")), []any{"a", ""}},
		{"*2\r\n*1\r\n:1\r\n$0\r\n\r\n", []any{[]any{int64(1)}, ""}},
	} {
		got, err := decode(bufio.NewReader(strings.NewReader(c.wire)))
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%q: %v, %v", c.wire, got, err)
		}
	}
	for _, wire := range []string{"", "x\r\n", "\n", "$5\r\nab", "?1\r\n", ":x\r\n"} {
		if got, err := decode(bufio.NewReader(strings.NewReader(wire))); err == nil {
			t.Errorf("%q: %v", wire, got)
		}
	}
}

package bench

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	RunWorker()
	os.Exit(m.Run())
}

// BenchmarkRaces measures one contestant after the other in this process.
func BenchmarkRaces(b *testing.B) {
	for _, p := range Parts() {
		for _, r := range p.races() {
			b.Run(r.name, func(b *testing.B) {
				env := Env{}
				if r.servers != nil {
					env = r.servers(b)
				}
				for _, c := range r.contestants {
					b.Run(c.name, func(b *testing.B) { benchmark(b, c, env) })
				}
			})
		}
	}
}

func benchmark(b *testing.B, c contestant, env Env) {
	w, err := c.open(env)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.ResetTimer()
	if err := w.do(b.N); err != nil {
		b.Fatal(err)
	}
}

// TestRace runs a race through Redis in worker processes and writes its table.
func TestRace(t *testing.T) {
	c := Config{Rounds: 2, Slice: time.Millisecond}
	r := redisRaces()[1]
	rows, err := r.run(c, r.servers(t))
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != len(remotes()) {
		t.Fatalf("%d rows for %d contestants", len(rows), len(remotes()))
	}
	for _, row := range rows {
		if len(row.Values) != c.Rounds || len(row.Ratios) != c.Rounds || !(median(row.Values) > 1) ||
			row.Bytes == nil ||
			!strings.HasPrefix(row.Note, "p99 ") || strings.Contains(row.Note, "server 0 ") {
			t.Errorf("%+v", row)
		}
		if strings.HasSuffix(row.Name, "(baseline)") != (row.Name == redisRate+" (baseline)") {
			t.Errorf("%s is no baseline", row.Name)
		}
	}
	var table strings.Builder
	if err := WriteTable(&table, rows); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(table.String(), "\n")
	if len(lines) < 2+len(rows) || !strings.Contains(lines[2], r.name) ||
		strings.Count(lines[2], "|") != strings.Count(lines[1], "|") ||
		!strings.Contains(table.String(), "Every target") {
		t.Error(table.String())
	}
}

// TestRaceNames: a job finds its contestant by two names.
func TestRaceNames(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range Parts() {
		for _, r := range p.races() {
			for _, c := range r.contestants {
				name := r.name + ": " + c.name
				if seen[name] {
					t.Errorf("two contestants are %s", name)
				}
				seen[name] = true
			}
			for _, name := range r.baseline {
				if !seen[r.name+": "+name] {
					t.Errorf("the baseline %s is no contestant of %s", name, r.name)
				}
			}
		}
	}
	for _, text := range []string{"", "{}", `{"Race":"net/http, admitted, 1 key","Contestant":"none"}`} {
		if err := serve(text, json.NewDecoder(strings.NewReader("")), json.NewEncoder(io.Discard)); err == nil {
			t.Errorf("%q is a job", text)
		}
	}
}

// TestVerdicts: a target is met, missed, or none.
func TestVerdicts(t *testing.T) {
	r := Row{Name: "a", Values: []float64{10}, Ratios: []float64{1, 3, 2}, Bytes: new(0.0), Allocs: new(2.0)}
	for want, goal := range map[string]Goal{
		"": {}, ">= 2.50 MISSED, allocs <= 2 met": {Ratio: new(2.5), Allocs: new(2.0)}, ">= 2 met": {Ratio: new(2.0)},
	} {
		r.Goal = goal
		if got, missed := r.verdicts(); got != want || missed != strings.Contains(want, "MISSED") {
			t.Errorf("%q, %v, want %q", got, missed, want)
		}
		var table strings.Builder
		if err := WriteTable(&table, []Row{r}); err != nil ||
			strings.Contains(table.String(), "Missed: : a: "+want) != strings.Contains(want, "MISSED") {
			t.Errorf("%v, %s", err, table.String())
		}
	}
}

func TestNumbers(t *testing.T) {
	for f, want := range map[float64]string{
		0: "0", 1: "1", 0.654: "0.65", 3.14159: "3.14", 31.4159: "31.4", 314.159: "314", 120: "120",
	} {
		if got := number(f); got != want {
			t.Errorf("%v is written %s, want %s", f, got, want)
		}
	}
}

// TestAgain: a measurement that fails while the hour turns is repeated once, and no other measurement is.
func TestAgain(t *testing.T) {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	failure := errors.New("a client was let in")
	for _, c := range []struct {
		name        string
		begin, end  time.Time
		fails, want int
		err         error
	}{
		{"all is well", noon, noon.Add(time.Hour), 0, 1, nil},
		{"the hour turned", noon.Add(-time.Second), noon, 1, 2, nil},
		{"the hour turned, and the second run fails too", noon.Add(-time.Second), noon, 2, 2, failure},
		{"within an hour", noon, noon.Add(time.Minute), 1, 1, failure},
	} {
		times, calls := []time.Time{c.begin, c.end}, 0
		now := func() time.Time { now := times[0]; times = times[1:]; return now }
		_, err := again(now, func() ([]Row, error) {
			if calls++; calls <= c.fails {
				return nil, failure
			}
			return nil, nil
		})
		if calls != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: measured %d times, %v", c.name, calls, err)
		}
	}
}

package bench

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sashlimit/sash/internal/redistest"
)

var short = Config{Rounds: 2, Slice: time.Millisecond, Keys: 10_000}

// TestRace runs races in worker processes and writes their table.
func TestRace(t *testing.T) {
	for _, r := range decisionRaces() {
		rows, err := r.run(short, Env{})
		if err != nil {
			t.Fatal(err)
		}
		if len(rows) != len(r.Contestants) {
			t.Fatalf("%d rows for %d contestants", len(rows), len(r.Contestants))
		}
		for _, row := range rows {
			if len(row.Values) != short.Rounds || len(row.Ratios) != short.Rounds || !(median(row.Values) > 1) ||
				row.Bytes == nil || row.Allocs == nil {
				t.Errorf("%+v", row)
			}
		}
		last := rows[len(rows)-1]
		if last.Name != "x/time/rate (baseline)" || median(last.Ratios) != 1 {
			t.Errorf("%+v", last)
		}
		var table strings.Builder
		if err := WriteTable(&table, rows); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(table.String(), "\n")
		if len(lines) < 2+len(rows) || !strings.Contains(lines[2], r.Name) ||
			strings.Count(lines[2], "|") != strings.Count(lines[1], "|") {
			t.Error(table.String())
		}
	}
}

func TestRaceNames(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range races() {
		for _, c := range r.Contestants {
			name := r.Name + ": " + c.Name
			if seen[name] {
				t.Errorf("two contestants are %s", name)
			}
			seen[name] = true
		}
		for _, name := range r.Baseline {
			if _, err := find(job{Race: r.Name, Contestant: name}); err != nil {
				t.Errorf("baseline: %v", err)
			}
		}
	}
}

func TestMemory(t *testing.T) {
	rows, err := runMemory(short)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if b := r.Values[0]; b < 8 || b > 2000 {
			t.Errorf("%s: %v bytes per key", r.Name, b)
		}
	}
}

func TestWorkersThatCannot(t *testing.T) {
	for _, text := range []string{"", "{}", `{"Race":"decision, admitted, 1 key","Contestant":"none"}`} {
		if err := serve(text, strings.NewReader(""), nil); err == nil {
			t.Errorf("%q is a job", text)
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

func TestFlatness(t *testing.T) {
	row := func(name string, ratio float64) Row {
		return Row{What: "script, refused", Name: name, Ratios: []float64{ratio}}
	}
	rows := flatness([]Row{
		row("log, limit 10", 0.5), row("log, limit 1000", 0.4), row("log, limit 100000", 0.8), row("counter", 9),
	})
	if len(rows) != 1 || rows[0].Values[0] != 2 {
		t.Errorf("%+v", rows)
	}
	if _, met := rows[0].Met(); met {
		t.Error("2 is not flat")
	}
}

func TestLatency(t *testing.T) {
	l := new(latency)
	if got := l.p99(); got != 0 {
		t.Errorf("without decisions: %v, want 0", got)
	}
	for i := range 200 {
		l.ns = append(l.ns, float64((i*77+5)%200)) // 0 to 199, in another order
	}
	if got := l.p99(); got != 198 {
		t.Errorf("of 0 to 199: %v, want 198", got)
	}
	failure := errors.New("refused")
	if err := l.noting(func(int) error { return failure })(1); err != failure || len(l.ns) != 1 || l.ns[0] <= 0 {
		t.Errorf("a decision: %v, and the times %v", err, l.ns)
	}
	r := Race{Contestants: []Contestant{{Name: "a", Latency: l}, {Name: "b"}}}
	rows := r.rows([][]sample{{{P99: 2000}, {P99: 4000}, {P99: 3000}}, {{NS: 1}, {NS: 1}, {NS: 1}}})
	if rows[0].Note != "p99 3 us" || rows[1].Note != "" {
		t.Errorf("notes %q and %q", rows[0].Note, rows[1].Note)
	}
}

// TestAgain: a measurement that fails while the hour turns is repeated once, and no
// other measurement is.
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

func TestCheck(t *testing.T) {
	t.Setenv("PATH", t.TempDir()) // where there is no redis-server
	c := short
	c.Keys = 1<<24 + 1
	for _, p := range Parts() {
		err := p.Check(c)
		switch p.Name {
		case "web", "echo", "echo5", "decision", "parallel", "observers":
			if err != nil {
				t.Error(err)
			}
		case "memory":
			if err == nil || !strings.Contains(err.Error(), "16777217") {
				t.Errorf("%d keys: %v", c.Keys, err)
			}
		default:
			if !errors.Is(err, exec.ErrNotFound) {
				t.Errorf("%s: without redis-server: %v", p.Name, err)
			}
		}
	}
}

// TestOwner: an owner is safe for concurrent use, since the nodes of a cluster start
// at once.
func TestOwner(t *testing.T) {
	o := &owner{}
	cleaned := 0
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() { o.Cleanup(func() { cleaned++ }) })
	}
	wg.Wait()
	if o.clean(); cleaned != 100 {
		t.Errorf("%d of 100 were cleaned", cleaned)
	}
}

// TestInterrupt: an interrupt leaves no directory and no server behind.
func TestInterrupt(t *testing.T) {
	const child = "SASH_BENCH_INTERRUPTED"
	if os.Getenv(child) != "" {
		_ = withServers(single, func(s *redistest.Server) error {
			os.Stdout.WriteString(s.Addr() + "\n")
			select {}
		})
		return
	}
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^TestInterrupt$")
	cmd.Env = append(os.Environ(), child+"=1", "TMPDIR="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 130 {
		t.Errorf("an interrupt: %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if w, err := dial(strings.TrimSpace(line)); err == nil {
		w.close()
		t.Error("the server still listens")
	}
}

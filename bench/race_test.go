package bench

import (
	"strings"
	"testing"
	"time"
)

var short = Config{Rounds: 2, Slice: time.Millisecond, Keys: 10_000}

// A race in processes of its own, to the last line of the table.
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
			if len(row.Values) != short.Rounds || len(row.Ratios) != short.Rounds || !(median(row.Values) > 1) || row.Bytes == nil || row.Allocs == nil {
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
		if lines := strings.Split(table.String(), "\n"); len(lines) < 2+len(rows) || !strings.Contains(lines[2], r.Name) || strings.Count(lines[2], "|") != strings.Count(lines[1], "|") {
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
	for _, text := range []string{"", "{}", `{"Race":"decision, admitted, 1 key","Contestant":"nobody"}`} {
		if err := serve(text, strings.NewReader(""), nil); err == nil {
			t.Errorf("%q is a job", text)
		}
	}
}

func TestNumbers(t *testing.T) {
	for f, want := range map[float64]string{0: "0", 1: "1", 0.654: "0.65", 3.14159: "3.14", 31.4159: "31.4", 314.159: "314", 120: "120"} {
		if got := number(f); got != want {
			t.Errorf("%v is written %s, want %s", f, got, want)
		}
	}
}

func TestFlatness(t *testing.T) {
	row := func(name string, ratio float64) Row {
		return Row{What: "script, refused", Name: name, Ratios: []float64{ratio}}
	}
	rows := flatness([]Row{row("log, limit 10", 0.5), row("log, limit 1000", 0.4), row("log, limit 100000", 0.8), row("counter", 9)})
	if len(rows) != 1 || rows[0].Values[0] != 2 {
		t.Errorf("%+v", rows)
	}
	if _, met := rows[0].Met(); met {
		t.Error("2 is not flat")
	}
}

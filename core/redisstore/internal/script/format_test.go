package script

import (
	_ "embed"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/sashlimit/sash/core"
)

// bytesOf returns the bytes of an example in a file of an algorithm, which TestFormats holds to be there.
func bytesOf(t *testing.T, example string) string {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(example, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestExamples: the examples of what stands in Redis are read.
func TestExamples(t *testing.T) {
	const now, start = 1_790_000_000_000_005, 1_790_000_040_000_000
	for _, e := range []struct {
		hex     string
		dropped int64
		entry   entry
	}{
		{"5bfeda25e005 000001", 0, entry{shortEntry, now, 1, 1}},
		{"5bfeda352245 00012d 00012c", 0, entry{longEntry, now + 1_000_000, 301, 300}},
		{"5bfeddc10825 10012e", 1, entry{shortEntry, now + 60_500_000, 302, 1}},
	} {
		text := bytesOf(t, e.hex)
		read := readEntry(text, len(text), now)
		total := read.total
		if read.total &= totals - 1; read != e.entry || total>>20 != e.dropped {
			t.Errorf("%s reads as %+v, %d dropped, want %+v, %d", e.hex, read, total>>20, e.entry, e.dropped)
		}
	}
	value := bytesOf(t, "000000000050 00000000001e 5bfedc883a00")
	f, rest, ok := readFacts(value, core.PerMinute(1).Using(core.SlidingCounter), start)
	if want := (facts{start, [3]int64{80, 30}}); !ok || rest != "" || f != want {
		t.Errorf("%x reads as %+v, want %+v", value, f, want)
	}
}

// TestUnknownAlgorithm: an algorithm that a function does not know panics there, and is not taken for another one.
func TestUnknownAlgorithm(t *testing.T) {
	unknown := core.PerHour(2).Using(core.Algorithm(len(core.Algorithms())))
	var f facts
	for name, call := range map[string]func(){
		"suffix":       func() { suffix(unknown) },
		"decideSource": func() { decideSource(false, []core.Limit{core.PerHour(1), unknown}) },
		"read":         func() { readFacts("A", unknown, 0) },
		"decide":       func() { f.decide(unknown, 0, 0, 1, false) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if text, _ := recover().(string); !strings.Contains(text, "unknown algorithm: "+unknown.Algorithm.String()) {
					t.Errorf("the panic is %q", text)
				}
			}()
			call()
		})
	}
}

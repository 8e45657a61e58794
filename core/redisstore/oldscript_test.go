package redisstore

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/window"
)

//go:embed testdata/decide.lua
var oldTemplate string

// TestTemplate compares the scripts of the template with the scripts that the former renderer makes of the former
// template, for all combinations of 1 to 5 limits of both algorithms, apart from white space and comments.
func TestTemplate(t *testing.T) {
	n := 0
	for _, windows := range [][]time.Duration{
		{time.Second, time.Minute, time.Hour, 24 * time.Hour, time.Minute},
		{time.Second, time.Minute, time.Hour, 24 * time.Hour, 90 * time.Second},
		{time.Millisecond, 2 * time.Hour, 366 * 24 * time.Hour, 24 * time.Hour, time.Second},
	} {
		for k := 1; k <= 5; k++ {
			for algorithms := range 1 << k {
				for _, lease := range []bool{false, true} {
					limits := make([]core.Limit, k)
					for i := range limits {
						limits[i] = core.Per(int64(10+i), windows[i]).Using(core.Algorithm(algorithms >> i & 1))
					}
					old := oldSource(limits, lease)
					got, want := decideSource(limits, lease), strings.Join(strings.Fields(compact(old)), " ")
					if joined := strings.Join(strings.Fields(got), " "); joined != want {
						t.Fatalf("%v, lease %v:\n got %s\nwant %s", limits, lease, joined, want)
					}
					n++
					if algorithms == 0 && !lease {
						t.Logf("%v: %d bytes, %d before", limits, len(got), len(old))
					}
				}
			}
		}
	}
	t.Logf("%d scripts are the same", n)
}

// oldSource is decide.lua for limits of these algorithms, in this order: the
// blocks that begin with @log or @counter and end with @end, repeated for each
// limit of that algorithm, and with @limit for each of either. Blocks that follow
// one another are taken together, so that the limits keep their order. A block
// that begins with @logs is there once if there is a log, a line that ends with
// @several if there are several, and one that ends with @lease if it is for leases.
func oldSource(limits []core.Limit, lease bool) string {
	plus, args := "", len(limitArgs(limits))
	if lease {
		plus, args = " + ahead", args+1
	}
	markers := strings.NewReplacer("@limits", strconv.Itoa(len(limits)), "@args", strconv.Itoa(args), "@ahead", plus)
	allowance := allowanceSource(limits)
	var out strings.Builder
	blocks := map[string]string{} // of the group at hand, by algorithm
	flush := func() {
		for i, l := range limits {
			length := fmt.Sprintf("ARGV[arg + %d] + 0", len(limits)+i+1)
			if usual(limits) {
				length = micros(l.Window)
			}
			block := blocks["@limit"] + blocks["@"+l.Algorithm.String()]
			replacer := strings.NewReplacer("@allowance", allowance, "@window", length, "@", strconv.Itoa(i+1))
			out.WriteString(replacer.Replace(block))
		}
		clear(blocks)
	}
	logs := 0
	for _, l := range limits {
		if l.Algorithm == core.SlidingLog {
			logs++
		}
	}
	in := ""
	for line := range strings.Lines(oldTemplate) {
		switch word := strings.TrimSpace(line); {
		case strings.HasPrefix(word, "--"):
		case word == "@log" || word == "@counter" || word == "@limit" || word == "@logs":
			in = word
		case word == "@end":
			in = ""
		case logs < 2 && strings.HasSuffix(word, "-- @several"), !lease && strings.HasSuffix(word, "-- @lease"):
		case in == "@logs":
			if logs > 0 {
				out.WriteString(line)
			}
		case in != "":
			blocks[in] += line
		default:
			if len(blocks) > 0 {
				flush()
			}
			out.WriteString(markers.Replace(line))
		}
	}
	return out.String()
}

// allowanceSource returns how far ahead of TIME a rule may have counted, in microseconds,
// as the script reckons it; see [window.Allowance].
func allowanceSource(limits []core.Limit) string {
	windows := strconv.Itoa(window.MaxAhead * window.AheadPart)
	for i := range limits {
		windows += ", window" + strconv.Itoa(i+1)
	}
	return fmt.Sprintf("math.min(%s) / %d", windows, window.AheadPart)
}

package redisstore

import (
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/window"
)

//go:embed decide.lua
var decideTemplate string

// script is a Lua script and the name that Redis knows it by.
type script struct {
	source, sha string
	arg         any // sha as an argument: made once, not for each call
}

func newScript(source string) script {
	sum := sha1.Sum([]byte(source))
	sha := hex.EncodeToString(sum[:])
	return script{source, sha, sha}
}

// maxLimits is how many limits a rule may have: their variables must fit into
// the 200 that a Lua function has.
const maxLimits = 16

// decideSource is decide.lua for limits of these algorithms, in this order: the
// blocks that begin with @log or @counter and end with @end, repeated for each
// limit of that algorithm, and with @limit for each of either. Blocks that follow
// one another are taken together, so that the limits keep their order. A block
// that begins with @logs is there once if there is a log, a line that ends with
// @several if there are several, and one that ends with @lease if it is for leases.
func decideSource(limits []core.Limit, lease bool) string {
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
	for line := range strings.Lines(decideTemplate) {
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

// scriptShape returns what limits have in common that have one script.
func scriptShape(limits []core.Limit, lease bool) string {
	shape := fmt.Sprint(lease)
	for _, l := range limits {
		shape += " " + l.Algorithm.String()
		if usual(limits) {
			shape += micros(l.Window)
		}
	}
	return shape
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

// usual says whether the windows stand in the script, where they take less time
// than in its arguments. So do these few only: Redis keeps each script that it is
// given, and the limits may be a client's own.
func usual(limits []core.Limit) bool {
	return !slices.ContainsFunc(limits, func(l core.Limit) bool {
		return !slices.Contains([]time.Duration{time.Second, time.Minute, time.Hour, 24 * time.Hour}, l.Window)
	})
}

// limitArgs are the script's arguments for all limits.
func limitArgs(limits []core.Limit) (args []any) {
	for _, l := range limits {
		args = append(args, strconv.FormatInt(l.Requests, 10))
	}
	if !usual(limits) {
		for _, l := range limits {
			args = append(args, micros(l.Window))
		}
	}
	return args
}

func micros(d time.Duration) string { return strconv.FormatInt(d.Microseconds(), 10) }

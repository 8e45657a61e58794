package redisstore

import (
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sashlimit/sash/core"
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
// that begins with @logs is there once if there is a log.
func decideSource(limits []core.Limit) string { return leaseSource(limits, 0) }

// leaseSource is decideSource for requests that are counted ahead of time.
func leaseSource(limits []core.Limit, ahead time.Duration) string {
	markers := strings.NewReplacer("@limits", strconv.Itoa(len(limits)), "@ahead", "")
	if ahead > 0 {
		markers = strings.NewReplacer("@limits", strconv.Itoa(len(limits)), "@ahead", " + "+strconv.FormatInt(ahead.Microseconds(), 10))
	}
	var out strings.Builder
	blocks := map[string]string{} // of the group at hand, by algorithm
	flush := func() {
		for i, l := range limits {
			block := blocks["@limit"] + blocks["@"+l.Algorithm.String()]
			out.WriteString(strings.ReplaceAll(block, "@", strconv.Itoa(i+1)))
		}
		clear(blocks)
	}
	logs := slices.ContainsFunc(limits, func(l core.Limit) bool { return l.Algorithm == core.SlidingLog })
	in := ""
	for line := range strings.Lines(decideTemplate) {
		switch word := strings.TrimSpace(line); {
		case strings.HasPrefix(word, "--"):
		case word == "@log" || word == "@counter" || word == "@limit" || word == "@logs":
			in = word
		case word == "@end":
			in = ""
		case in == "@logs":
			if logs {
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

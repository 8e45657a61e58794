package redisstore

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/sashlimit/sash/core"
)

// script is a Lua script and the name that Redis knows it by.
type script struct {
	source  string
	sha     any      // an argument: made once, not for each call
	batches *batches // where the requests wait that it decides; nil where each must be sent by itself
}

func newScript(source string) script {
	sum := sha1.Sum([]byte(source))
	return script{source: source, sha: hex.EncodeToString(sum[:])}
}

// maxLimits is how many limits a rule may have: their variables must fit into
// the 200 that a Lua function has.
const maxLimits = 16

// maxScripts is how many scripts a store keeps. Rules may be bound while serving, and of
// 16 limits alone there are 2^16 scripts.
const maxScripts = 128

// scriptShape returns what the limits of rules have in common that have one script.
func scriptShape(lease bool, limits []core.Limit) string {
	shape, few := fmt.Sprint(lease), usual(limits)
	for _, l := range limits {
		shape += " " + l.Algorithm.String()
		if few {
			shape += micros(l.Window)
		}
	}
	return shape
}

// usual reports whether the windows stand in the script, where they take less time than in its arguments. Only few do:
// Redis keeps each script that it is given, and a program may let its clients choose their limits. Clients that choose
// the windows of n limits lead to 4^n+1 scripts at most, 257 for four limits, and to one script for more than four.
func usual(limits []core.Limit) bool {
	return len(limits) <= 4 && !slices.ContainsFunc(limits, func(l core.Limit) bool {
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

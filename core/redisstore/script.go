package redisstore

import (
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/template"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/window"
)

//go:embed decide.lua.tmpl
var decideText string

// decideTemplate returns the template of all scripts.
var decideTemplate = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("decide").Parse(decideText))
})

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

// templateRule is a rule as decide.lua.tmpl needs it.
type templateRule struct {
	Limits []templateLimit
	Args   int  // the number of arguments for all limits
	Lease  bool // reports whether requests are stamped ahead of TIME

	MaxAhead  int64 // see window.Allowance: windows and MaxAhead are divided by AheadPart
	AheadPart int64
}

// Count returns how many limits have the steps of this name.
func (r *templateRule) Count(steps string) int {
	n := 0
	for _, l := range r.Limits {
		if formatOf(l.Algorithm).steps == steps {
			n++
		}
	}
	return n
}

// templateLimit is a limit as decide.lua.tmpl needs it.
type templateLimit struct {
	Rule      *templateRule
	N         int    // the number of the limit, from 1
	Key       string // the Redis key, in Lua
	Window    string // the window in microseconds, in Lua
	Algorithm core.Algorithm
}

// Step returns a step of the limit's algorithm, in Lua. A template cannot choose another by its data itself.
func (l templateLimit) Step(name string) (string, error) {
	var lua strings.Builder
	err := decideTemplate().ExecuteTemplate(&lua, formatOf(l.Algorithm).steps+" "+name, l)
	return lua.String(), err
}

// decideSource returns the script that decides by such limits, in this order. It panics if an algorithm is unknown.
func decideSource(limits []core.Limit, lease bool) string {
	rule := &templateRule{
		Limits: make([]templateLimit, len(limits)), Args: len(limitArgs(limits)), Lease: lease,
		MaxAhead: window.MaxAhead * window.AheadPart, AheadPart: window.AheadPart,
	}
	if lease {
		rule.Args++
	}
	for i, l := range limits {
		length := fmt.Sprintf("ARGV[arg + %d] + 0", len(limits)+i+1)
		if usual(limits) {
			length = micros(l.Window)
		}
		rule.Limits[i] = templateLimit{rule, i + 1, fmt.Sprintf("KEYS[key + %d]", i+1), length, l.Algorithm}
	}
	var lua strings.Builder
	if err := decideTemplate().Execute(&lua, rule); err != nil {
		panic("sash: " + err.Error())
	}
	return compact(lua.String())
}

// compact returns a script without comments, indentation and empty lines. No text in the script may hold "--".
func compact(lua string) string {
	var short strings.Builder
	for line := range strings.Lines(lua) {
		code, _, _ := strings.Cut(line, "--")
		if code = strings.TrimSpace(code); code != "" {
			short.WriteString(code)
			short.WriteByte('\n')
		}
	}
	return short.String()
}

// maxScripts is how many scripts a store keeps, and for how many it keeps batches: rules may be bound while serving, and
// of 16 limits alone there are 2^16 scripts.
const maxScripts = 128

// keep adds v to what a store keeps by script, in the place of an arbitrary other if there are maxScripts. Rules that
// have the other go on using it. For a rule that is bound later it is made anew: then the requests of both rules do not
// wait together, and are decided all the same.
func keep[V any](byScript map[string]V, key string, v V) {
	if len(byScript) >= maxScripts {
		for other := range byScript {
			delete(byScript, other)
			break
		}
	}
	byScript[key] = v
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

// usual reports whether the windows stand in the script, where they take less time than in its arguments. Only few do:
// Redis keeps each script that it is given, and a program may let its clients choose their limits. Clients that choose
// the windows of n limits lead to 4^n+1 scripts at most, 65 for three limits, and to one script for more than three.
func usual(limits []core.Limit) bool {
	return len(limits) <= 3 && !slices.ContainsFunc(limits, func(l core.Limit) bool {
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

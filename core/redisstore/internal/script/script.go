package script

import (
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/template/parse"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/window"
)

// Script is a Lua script and the name that Redis knows it by.
type Script struct {
	Source string
	SHA    any // an argument: made once, not for each call
}

// Make returns the script of a source.
func Make(source string) Script {
	sum := sha1.Sum([]byte(source))
	return Script{source, hex.EncodeToString(sum[:])}
}

// MaxLimits is how many limits a rule may have: their variables must fit into
// the 200 that a Lua function has.
const MaxLimits = 16

// Decide returns the script for the limits of rules of one [Shape], or of their leases. To render it takes most of a
// millisecond.
func Decide(lease bool, limits []core.Limit) Script {
	return Make(scriptSource("decide", lease, limits))
}

// Return returns the script by which units are given back, whatever the rule.
var Return = sync.OnceValue(func() Script { return Make(scriptSource("return", false, nil)) })

// Shape returns what the limits of rules have in common that have one script.
func Shape(lease bool, limits []core.Limit) string {
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

// The script is a text/template that is executed here. The package text/template calls methods by their names, so the
// linker keeps every exported method of a program that uses it: examples/nethttp would have 18.0 MB instead of 9.3.
// TestTemplate compares the scripts with what text/template makes.

//go:embed scripts.lua.tmpl
var decideText string

// decideTemplates returns the templates of scripts.lua.tmpl by name.
var decideTemplates = sync.OnceValue(func() map[string]*parse.Tree {
	trees, err := parse.Parse("decide", decideText, "", "")
	if err != nil {
		panic("sash: " + err.Error())
	}
	return trees
})

// variables are what a template may ask for, such as {{.Window}}. In {{if}} the empty text is false.
type variables map[string]string

// scriptSource returns the script of a template, for such limits in this order. It panics if an algorithm is unknown.
func scriptSource(template string, lease bool, limits []core.Limit) string {
	rule, all := ruleVariables(lease, limits)
	var lua strings.Builder
	render(&lua, decideTemplates()[template].Root, rule, all)
	return compact(lua.String())
}

// render writes a list of nodes of a part of the language: variables, texts, {{if}}, {{range .Limits}} and
// {{template}}. dot is variables, or a string.
func render(lua *strings.Builder, list *parse.ListNode, dot any, limits []variables) {
	if list == nil {
		return
	}
	for _, node := range list.Nodes {
		switch n := node.(type) {
		case *parse.TextNode:
			lua.Write(n.Text)
		case *parse.ActionNode:
			lua.WriteString(value(n.Pipe, dot).(string))
		case *parse.IfNode:
			branch := n.List
			if value(n.Pipe, dot) == "" {
				branch = n.ElseList
			}
			render(lua, branch, dot, limits)
		case *parse.RangeNode:
			for _, limit := range limits {
				render(lua, n.List, limit, limits)
			}
		case *parse.TemplateNode:
			render(lua, decideTemplates()[n.Name].Root, value(n.Pipe, dot), limits)
		default:
			panic("sash: scripts.lua.tmpl: unknown: " + node.String())
		}
	}
}

// value returns what the first word of a pipe stands for.
func value(pipe *parse.PipeNode, dot any) any {
	switch word := pipe.Cmds[0].Args[0].(type) {
	case *parse.DotNode:
		return dot
	case *parse.StringNode:
		return word.Text
	case *parse.FieldNode:
		return dot.(variables)[word.Ident[0]]
	}
	panic("sash: scripts.lua.tmpl: unknown: " + pipe.String())
}

// ruleVariables returns the variables of a rule, and those of its limits, which have the rule's too. It panics if an
// algorithm is unknown.
func ruleVariables(lease bool, limits []core.Limit) (rule variables, all []variables) {
	args, logs := len(limitArgs(limits)), 0
	if lease {
		args++
	}
	for _, l := range limits {
		if formatOf(l.Algorithm).steps == "log" {
			logs++
		}
	}
	yes := map[bool]string{true: "yes"}
	rule = variables{
		"Count": strconv.Itoa(len(limits)), "Args": strconv.Itoa(args),
		"Lease": yes[lease], "Logs": yes[logs > 0], "Several": yes[logs > 1],
		"Few":       yes[usual(limits)], // Lua has no room for more variables (TestScriptManyLimits)
		"FewLogs":   yes[logs > 0 && usual(limits)],
		"Allowance": allowanceSource(len(limits)),
	}
	for i, l := range limits {
		n := i + 1
		limit := maps.Clone(rule)
		limit["N"] = strconv.Itoa(n)
		limit["Key"] = fmt.Sprintf("KEYS[key + %d]", n)
		limit["Window"] = fmt.Sprintf("ARGV[arg + %d] + 0", len(limits)+n)
		if usual(limits) {
			limit["Window"] = micros(l.Window)
			limit["Key"] = "key" + limit["N"]
		}
		limit["Slot"] = fmt.Sprintf("math.ceil(window%d / %d)", n, window.Slots)
		if usual(limits) {
			limit["Slot"] = strconv.FormatInt(window.Limit{W: l.Window.Microseconds()}.Slot(), 10)
		}
		limit[formatOf(l.Algorithm).steps] = "yes"
		all = append(all, limit)
	}
	return rule, all
}

// allowanceSource returns how far ahead of TIME a rule of n limits may have counted, in Lua; see [window.Allowance].
func allowanceSource(n int) string {
	windows := strconv.Itoa(window.MaxAhead * window.AheadPart)
	for i := range n {
		windows += ", window" + strconv.Itoa(i+1)
	}
	return fmt.Sprintf("math.min(%s) / %d", windows, window.AheadPart)
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

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

// MaxLimits bounds the limits of a rule: their variables must fit into
// the 200 that a Lua function has.
const MaxLimits = 16

// Decide returns the script for the limits of rules of one [Shape], or of their leases. To render it takes most of a
// millisecond. It panics if an algorithm is unknown.
func Decide(lease bool, limits []core.Limit) Script {
	return Make(compact(execute("decide", ruleVariables(lease, limits))))
}

// Return returns the script by which units are given back, whatever the rule.
var Return = sync.OnceValue(func() Script {
	functions, names := "", []string(nil)
	for _, own := range algorithms {
		if own != nil {
			functions += part(own.steps+" return", nil)
			names = append(names, own.steps+" = "+own.steps)
		}
	}
	return Make(compact(execute("return", variables{"Functions": functions, "Steps": strings.Join(names, ", ")})))
})

// Shape returns what the limits of rules have in common that have one script.
func Shape(lease bool, limits []core.Limit) string {
	shape, inline := fmt.Sprint(lease), hasInlineWindows(limits)
	for _, l := range limits {
		shape += " " + l.Algorithm.String()
		if inline {
			shape += micros(l.Window)
		}
	}
	return shape
}

// hasInlineWindows reports whether the windows stand in the script, where they take less time than in its arguments.
// Only few do: Redis keeps each script that it is given, and a program may let its clients choose their limits. Clients
// that choose the windows of n limits lead to 4^n+1 scripts at most, 257 for four limits, and to one script for more
// than four.
func hasInlineWindows(limits []core.Limit) bool {
	return len(limits) <= 4 && !slices.ContainsFunc(limits, func(l core.Limit) bool {
		return !slices.Contains([]time.Duration{time.Second, time.Minute, time.Hour, 24 * time.Hour}, l.Window)
	})
}

// limitArgs are the script's arguments for all limits.
func limitArgs(limits []core.Limit) (args []any) {
	for _, l := range limits {
		args = append(args, strconv.FormatInt(l.Requests, 10))
	}
	if !hasInlineWindows(limits) {
		for _, l := range limits {
			args = append(args, micros(l.Window))
		}
	}
	return args
}

func micros(d time.Duration) string { return strconv.FormatInt(d.Microseconds(), 10) }

// The script is a text/template that is executed here. The package text/template calls methods by their names, so the
// linker keeps every exported method of a program that uses it: examples/nethttp would have 18.0 MB instead of 9.3.

//go:embed decide.lua
var decideLua string

//go:embed return.lua
var returnLua string

// templates returns the templates of all files by name.
var templates = sync.OnceValue(func() map[string]*parse.Tree {
	sources := map[string]string{"decide": decideLua, "return": returnLua}
	for _, own := range algorithms {
		if own != nil {
			sources[own.steps] = *own.lua
		}
	}
	all := map[string]*parse.Tree{}
	for file, text := range sources {
		trees, err := parse.Parse(file, text, "", "")
		if err != nil {
			panic("sash: " + err.Error())
		}
		maps.Copy(all, trees)
	}
	return all
})

// variables are the fields of a template, such as {{.Window}}. In {{if}} the empty text is false.
type variables map[string]string

// part returns a template of an algorithm, or "" if it has none of this name.
func part(name string, own variables) string {
	if templates()[name] == nil {
		return ""
	}
	return execute(name, own)
}

func execute(template string, own variables) string {
	var lua strings.Builder
	writeNodes(&lua, templates()[template].Root, own)
	return lua.String()
}

// writeNodes writes a list of nodes of a part of the language: variables, texts, {{if}} and {{template}}. dot is
// variables, or a string.
func writeNodes(lua *strings.Builder, list *parse.ListNode, dot any) {
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
			writeNodes(lua, branch, dot)
		case *parse.TemplateNode:
			writeNodes(lua, templates()[n.Name].Root, value(n.Pipe, dot))
		default:
			panic("sash: a template of a script: unknown: " + node.String())
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
	panic("sash: a template of a script: unknown: " + pipe.String())
}

// truth is the text of a condition in a template.
var truth = map[bool]string{true: "yes"}

// ruleVariables returns the variables of decide.lua, among them the parts of the algorithms. It panics if an algorithm
// is unknown.
func ruleVariables(lease bool, limits []core.Limit) variables {
	args, number := len(limitArgs(limits)), map[*algorithm]int{}
	if lease {
		args++
	}
	for _, l := range limits {
		number[algorithmOf(l.Algorithm)]++
	}
	rule := variables{
		"Number": strconv.Itoa(len(limits)), "Args": strconv.Itoa(args),
		"Lease":       truth[lease],
		"Inline":      truth[hasInlineWindows(limits)], // Lua has no room for more variables
		"AllowedLead": allowedLeadSource(len(limits)),
	}
	addParts := func(own *algorithm, v variables, parts ...string) {
		v["Repeated"] = truth[number[own] > 1]
		for _, name := range parts {
			rule[name] += part(own.steps+" "+strings.ToLower(name), v)
		}
	}
	for _, own := range algorithms {
		if number[own] > 0 {
			addParts(own, maps.Clone(rule), "Script", "Request", "Counting")
		}
	}
	for i, l := range limits {
		v := limitVariables(rule, i+1, len(limits), l)
		for _, name := range []string{"Locals", "Limits", "Keys"} {
			rule[name] += v[name]
		}
		addParts(algorithmOf(l.Algorithm), v, "Find", "Judge", "Count", "Reply")
	}
	return rule
}

// limitVariables returns the variables of the rule and of limit n of all.
func limitVariables(rule variables, n, all int, l core.Limit) variables {
	v := maps.Clone(rule)
	v["N"] = strconv.Itoa(n)
	v["Key"] = fmt.Sprintf("KEYS[key + %d]", n)
	v["Keys"] = ""
	v["Window"] = fmt.Sprintf("ARGV[arg + %d] + 0", all+n)
	v["Slot"] = fmt.Sprintf("math.ceil(window%d / %d)", n, window.Slots)
	if v["Inline"] != "" {
		v["Keys"] = fmt.Sprintf("local key%d = %s\n", n, v["Key"])
		v["Key"] = "key" + v["N"]
		v["Window"] = micros(l.Window)
		v["Slot"] = strconv.FormatInt(limitOf(l).Slot(), 10)
	}
	v["Limits"] = fmt.Sprintf("limit%d, window%d = ARGV[arg + %d] + 0, %s\n", n, n, n, v["Window"])
	v["Locals"] = "local " + v["Limits"]
	return v
}

// allowedLeadSource returns [window.AllowedLead] of a rule of n limits, in Lua.
func allowedLeadSource(n int) string {
	windows := strconv.Itoa(window.MaxLead * window.LeadPart)
	for i := range n {
		windows += ", window" + strconv.Itoa(i+1)
	}
	return fmt.Sprintf("math.min(%s) / %d", windows, window.LeadPart)
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

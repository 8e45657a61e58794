package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// otherLua are the operators for scripts.
var otherLua = map[string][]string{
	"<": {"<=", ">="}, "<=": {"<", ">"}, ">": {">=", "<="}, ">=": {">", "<"}, "==": {"~="}, "~=": {"=="},
	"+": {"-"}, "-": {"+"}, "*": {"/"}, "/": {"*"}, "%": {"+"}, "and": {"or"}, "or": {"and"}, "not": {""},
	"true": {"false"}, "false": {"true"}, "math.min": {"math.max"}, "math.max": {"math.min"},
}

// token matches a comment, an action of the template, a text, or what an operator may change.
var luaToken = regexp.MustCompile(`--.*|\{\{.*?\}\}|'[^']*'|\b\d+\b|[<>=~]=|[<>]| [-+*/%] |` +
	`\b(and|or|not|true|false)\b|math\.m(in|ax)|[A-Za-z_]\w*`)

// statement matches a line that is a statement by itself.
var luaStatement = regexp.MustCompile(`(?m)^\s*((?:[a-z][\w{}.]*(?:, )?)+ = .*[^,(]|call\(.*\)|return .*|break)$`)

// luaOperand matches an operand of "and" or "or", and what comes after it.
var luaOperand = regexp.MustCompile(`^(?:and|or) .*?( (?:and|or|then)\b|\n)`)

// luaMutants returns the mutants of a script: each is a place in its text, and what stands there instead.
func luaMutants(path string) ([]*mutant, error) {
	source, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	script := string(source)
	var all []*mutant
	add := func(from, to int, other string) {
		begin, end := strings.LastIndexByte(script[:from], '\n')+1, to+strings.IndexByte(script[to:], '\n')
		all = append(all, &mutant{
			name:  withoutComment(script[begin:end]) + " => " + withoutComment(script[begin:from]+other+script[to:end]),
			where: fmt.Sprintf("%s:%d", path, 1+strings.Count(script[:from], "\n")),
			env:   fmt.Sprintf("%d,%d,%s", from, to, other),
		})
	}
	for _, at := range luaToken.FindAllStringIndex(script, -1) {
		word := script[at[0]:at[1]]
		operator := strings.TrimSpace(word)
		for _, other := range otherLua[operator] {
			if word == " + " && script[at[1]] == '0' {
				continue // it makes a number of a text, as " - 0" does
			}
			add(at[0], at[1], strings.Replace(word, operator, other, 1))
		}
		if operand := luaOperand.FindStringSubmatchIndex(script[at[0]:]); operand != nil {
			add(at[0], at[0]+operand[2], "")
		}
		if n, err := strconv.Atoi(strings.Trim(word, "'")); err == nil {
			add(at[0], at[1], strings.Replace(word, strconv.Itoa(n), strconv.Itoa(n+1), 1))
		}
	}
	for _, at := range luaStatement.FindAllStringSubmatchIndex(script, -1) {
		add(at[2], at[3], "")
	}
	return all, nil
}

func withoutComment(line string) string {
	code, _, _ := strings.Cut(line, " -- ")
	return strings.TrimSpace(code)
}

// edited is a file of package redisstore that changes the script, and ends the program with status 9 if what is left
// is no Lua.
const edited = `package redisstore

import (
	"os"
	"strconv"
	"strings"

	"github.com/yuin/gopher-lua/parse"

	"github.com/sashlimit/sash/core"
)

func init() {
	edit := strings.SplitN(os.Getenv("MUTANT"), ",", 3)
	if len(edit) < 3 {
		return
	}
	from, _ := strconv.Atoi(edit[0])
	to, _ := strconv.Atoi(edit[1])
	decideText = decideText[:from] + edit[2] + decideText[to:]
	limits := []core.Limit{core.PerMinute(1), core.PerMinute(1), core.PerMinute(1).Using(core.SlidingCounter),
		core.PerMinute(1).Using(core.CoarseLog)}
	for _, source := range []string{scriptSource("decide", true, limits), scriptSource("return", false, nil)} {
		if _, err := parse.Parse(strings.NewReader(source), "script"); err != nil {
			os.Exit(9)
		}
	}
}
`

func (p *pkg) compileLua() (err error) {
	if p.mutants, err = luaMutants(filepath.Join(p.dir, "scripts.lua.tmpl")); err != nil {
		return err
	}
	out, err := p.compile(map[string]string{filepath.Join(p.dir, "mutant.go"): edited})
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

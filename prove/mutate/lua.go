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

// luaMutants returns the mutants of a template of the scripts: each is the variable that has its text, a place in that,
// and what stands there instead.
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
			env:   fmt.Sprintf("%s,%d,%d,%s", luaVariable(path), from, to, other),
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

// luaVariable returns the name of the variable that has the text of a template.
func luaVariable(path string) string { return strings.TrimSuffix(filepath.Base(path), ".lua") + "Lua" }

// edited is a file of the package of the scripts that changes a template, and ends the program with status 9 if what is
// left is no Lua. The variables of the templates are added to it.
const edited = `package script

import (
	"os"
	"strconv"
	"strings"

	"github.com/yuin/gopher-lua/parse"

	"github.com/sashlimit/sash/core"
)

func init() {
	edit := strings.SplitN(os.Getenv("MUTANT"), ",", 4)
	if len(edit) < 4 {
		return
	}
	from, _ := strconv.Atoi(edit[1])
	to, _ := strconv.Atoi(edit[2])
	text := edited[edit[0]]
	*text = (*text)[:from] + edit[3] + (*text)[to:]
	limits := []core.Limit{core.PerMinute(1), core.PerMinute(1), core.PerMinute(1).Using(core.SlidingCounter),
		core.PerMinute(1).Using(core.CoarseLog), core.PerMinute(1).Using(core.Bucket)}
	for _, source := range []string{Decide(true, limits).Source, Return().Source} {
		if _, err := parse.Parse(strings.NewReader(source), "script"); err != nil {
			os.Exit(9)
		}
	}
}
`

// findLua finds the mutants of the scripts.
func (p *pkg) findLua() error {
	paths, err := filepath.Glob(filepath.Join(p.dir, "*.lua"))
	if err != nil {
		return err
	}
	for _, path := range paths {
		if p.files[path], err = luaMutants(path); err != nil {
			return err
		}
		p.mutants = append(p.mutants, p.files[path]...)
	}
	return nil
}

func (p *pkg) compileLua() error {
	source := edited + "\nvar edited = map[string]*string{\n"
	for path := range p.files {
		source += fmt.Sprintf("\t%q: &%[1]s,\n", luaVariable(path))
	}
	// The file's name puts its init behind the algorithms' inits, which add their templates.
	out, err := p.compile(map[string]string{filepath.Join(p.dir, "zmutant.go"): source + "}\n"})
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

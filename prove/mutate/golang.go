package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// edit changes a syntax tree, and changes it back.
type edit struct {
	at        token.Pos
	what      string
	set, back func()
}

// swap returns the edit that puts a value in the place of another. what says where, by the node before and after.
func swap[T any](at ast.Node, place *T, value T) edit {
	old, before := *place, text(at)
	*place = value
	after := text(at)
	*place = old
	return edit{at.Pos(), before + " => " + after, func() { *place = value }, func() { *place = old }}
}

// text returns a node in one line.
func text(n ast.Node) string {
	var b bytes.Buffer
	if err := format.Node(&b, token.NewFileSet(), n); err != nil {
		return err.Error()
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

var others = map[token.Token][]token.Token{
	token.LSS: {token.LEQ, token.GEQ}, token.LEQ: {token.LSS, token.GTR},
	token.GTR: {token.GEQ, token.LEQ}, token.GEQ: {token.GTR, token.LSS},
	token.EQL: {token.NEQ}, token.NEQ: {token.EQL},
	token.ADD: {token.SUB}, token.SUB: {token.ADD},
	token.MUL: {token.QUO}, token.QUO: {token.MUL}, token.REM: {token.MUL},
	token.SHL: {token.SHR}, token.SHR: {token.SHL},
	token.AND: {token.OR}, token.OR: {token.AND}, token.XOR: {token.AND},
	token.INC: {token.DEC}, token.DEC: {token.INC},
	token.ADD_ASSIGN: {token.SUB_ASSIGN, token.ASSIGN}, token.SUB_ASSIGN: {token.ADD_ASSIGN, token.ASSIGN},
	token.MUL_ASSIGN: {token.ASSIGN}, token.OR_ASSIGN: {token.ASSIGN}, token.XOR_ASSIGN: {token.ASSIGN},
}

var otherNames = map[string]string{"min": "max", "max": "min", "true": "false", "false": "true"}

// edits returns the edits of one node.
func edits(n ast.Node) (all []edit) {
	switch n := n.(type) {
	case ast.Expr:
		all = ofExpression(n)
	case *ast.IncDecStmt:
		all = append(all, swap(n, &n.Tok, others[n.Tok][0]))
	case *ast.AssignStmt:
		for _, op := range others[n.Tok] {
			all = append(all, swap(n, &n.Tok, op))
		}
	case *ast.IfStmt:
		if call, ok := n.Cond.(*ast.CallExpr); ok {
			all = append(all, swap[ast.Expr](n, &n.Cond, &ast.UnaryExpr{Op: token.NOT, X: call}))
		}
		if _, ok := n.Init.(*ast.ExprStmt); ok {
			all = append(all, swap(n, &n.Init, nil))
		}
	case *ast.BlockStmt:
		all = removals(n.List)
	case *ast.CaseClause:
		all = removals(n.Body)
	case *ast.CommClause:
		all = removals(n.Body)
	}
	return all
}

// ofExpression returns the edits of an expression alone.
func ofExpression(n ast.Expr) (all []edit) {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		for _, op := range others[n.Op] {
			all = append(all, swap(n, &n.Op, op))
		}
		if n.Op == token.LAND || n.Op == token.LOR {
			neutral := ast.NewIdent(strconv.FormatBool(n.Op == token.LAND))
			all = append(all, swap[ast.Expr](n, &n.X, neutral), swap[ast.Expr](n, &n.Y, neutral))
		}
	case *ast.UnaryExpr:
		if n.Op == token.NOT {
			all = append(all, swap[ast.Expr](n, &n.X, &ast.UnaryExpr{Op: token.NOT, X: n.X}))
		} else if n.Op == token.SUB {
			all = append(all, swap(n, &n.Op, token.ADD))
		}
	case *ast.BasicLit:
		if i, err := strconv.ParseInt(n.Value, 0, 64); err == nil {
			all = append(all, swap(n, &n.Value, fmt.Sprint(i+1)))
		}
	case *ast.Ident:
		if other := otherNames[n.Name]; other != "" {
			all = append(all, swap(n, &n.Name, other))
		}
	case *ast.CallExpr: // it may be one of its arguments
		for i := range min(2, len(n.Args)) {
			instead := swap[ast.Expr](n, &n.Fun, ast.NewIdent(fmt.Sprint("argument", i)))
			instead.what = text(n) + " => " + text(n.Args[i])
			all = append(all, instead)
		}
	}
	return all
}

// removals returns the edits that remove one statement each. Declarations are left.
func removals(list []ast.Stmt) (all []edit) {
	for i, s := range list {
		switch s := s.(type) {
		case *ast.AssignStmt:
			if s.Tok == token.DEFINE {
				continue
			}
		case *ast.ExprStmt, *ast.IncDecStmt, *ast.GoStmt, *ast.DeferStmt, *ast.SendStmt, *ast.ReturnStmt,
			*ast.BranchStmt:
		default:
			continue
		}
		removed := swap(s, &list[i], ast.Stmt(&ast.EmptyStmt{}))
		removed.what = "no " + text(s)
		all = append(all, removed)
	}
	return all
}

// goMutants returns the mutants of a file, numbered from the given number on. Each has the body of its function,
// changed, as code; see schemata.
func goMutants(path string, number int) (all []*mutant, err error) {
	source, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil {
			continue
		}
		call, end := "func()", "()\nreturn\n"
		if r := f.Type.Results; r != nil {
			results := source[files.Position(r.Pos()).Offset:files.Position(r.End()).Offset]
			call, end = "return func() "+string(results), "()\n"
		}
		ast.Inspect(f.Body, func(n ast.Node) bool {
			for _, e := range edits(n) {
				e.set()
				var body bytes.Buffer
				err = format.Node(&body, files, f.Body)
				e.back()
				id, at := number+len(all), files.Position(e.at).Line
				line, _, _ := strings.Cut(string(bytes.Split(source, []byte("\n"))[at-1]), " // ")
				all = append(all, &mutant{
					name:     fmt.Sprintf("%s: %s", strings.TrimSpace(line), e.what),
					function: f.Name.Name, where: fmt.Sprintf("%s:%d", path, at), env: strconv.Itoa(id),
					offset: files.Position(f.Body.Lbrace).Offset, line: files.Position(f.Body.Lbrace).Line,
					code: fmt.Sprintf("case %d:\n//line mutant%d:1\n%s %s%s", id, id, call, body.Bytes(), end),
				})
			}
			return true
		})
	}
	return all, err
}

// schemata returns a file in which each function begins with its mutants, one of which the variable mutant chooses.
// So a package is compiled once for all mutants.
func schemata(path string, mutants []*mutant) (string, error) {
	source, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	done := 0
	for i, m := range mutants {
		if m.offset >= done {
			b.Write(source[done : m.offset+1])
			done = m.offset + 1
			b.WriteString("\nswitch mutant {\n")
		}
		if !m.unfit {
			b.WriteString(m.code)
		}
		if i+1 == len(mutants) || mutants[i+1].offset != m.offset {
			fmt.Fprintf(&b, "}\n//line %s:%d\n", filepath.Base(path), m.line)
		}
	}
	b.Write(source[done:])
	return b.String(), nil
}

const chosen = `package %s

import (
	"os"
	"strconv"
)

var mutant, _ = strconv.Atoi(os.Getenv("MUTANT"))

func argument0[A any](a A, _ ...any) A        { return a }
func argument1[A any](_ any, a A, _ ...any) A { return a }
`

var inMutant = regexp.MustCompile(`mutant(\d+):\d`)

// findGo finds the mutants of a package of Go.
func (p *pkg) findGo() error {
	paths, err := filepath.Glob(filepath.Join(p.dir, "*.go"))
	if err != nil {
		return err
	}
	for _, path := range paths {
		if !strings.HasSuffix(path, "_test.go") {
			if p.files[path], err = goMutants(path, len(p.mutants)+1); err != nil {
				return err
			}
			p.mutants = append(p.mutants, p.files[path]...)
		}
	}
	return nil
}

// compileGo makes a test program of the package with all mutants. Mutants that do not compile become unfit.
func (p *pkg) compileGo() error {
	for {
		overlay := map[string]string{filepath.Join(p.dir, "mutant.go"): fmt.Sprintf(chosen, filepath.Base(p.dir))}
		for path, mutants := range p.files {
			var err error
			if overlay[path], err = schemata(path, mutants); err != nil {
				return err
			}
		}
		out, err := p.compile(overlay)
		bad := inMutant.FindAllStringSubmatch(out, -1)
		if _, failed := err.(*exec.ExitError); !failed || len(bad) == 0 {
			if err != nil {
				err = fmt.Errorf("%w: %s", err, out)
			}
			return err
		}
		for _, found := range bad {
			id, _ := strconv.Atoi(found[1])
			p.mutants[id-1].unfit = true
		}
	}
}

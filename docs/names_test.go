package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// exported returns the exported names of a package of this module.
func exported(t *testing.T, path string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(".." + strings.TrimPrefix(path, "github.com/sashlimit/sash") + "/*.go")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			for _, ident := range declaredBy(decl) {
				names[ident.Name] = ident.IsExported()
			}
		}
	}
	return names
}

// declaredBy returns the names that a declaration declares, but those of methods.
func declaredBy(decl ast.Decl) []*ast.Ident {
	switch decl := decl.(type) {
	case *ast.FuncDecl:
		if decl.Recv == nil {
			return []*ast.Ident{decl.Name}
		}
	case *ast.GenDecl:
		var all []*ast.Ident
		for _, spec := range decl.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				all = append(all, spec.Name)
			case *ast.ValueSpec:
				all = append(all, spec.Names...)
			}
		}
		return all
	}
	return nil
}

// TestNamesInProse: what the pages and the README name of a package of sash, as in
// `core.PerMinute`, is there.
func TestNamesInProse(t *testing.T) {
	pages, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`\b([a-z]+[0-9]?)\.([A-Z]\w*)`)
	spans := regexp.MustCompile("`[^`\n]+`")
	byPackage, count := map[string]map[string]bool{}, 0
	for _, page := range append(pages, "../README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		prose := blocks.ReplaceAllString(string(text), "")
		for _, span := range spans.FindAllString(prose, -1) {
			for _, name := range named.FindAllStringSubmatch(span, -1) {
				path := imports[name[1]]
				if !strings.HasPrefix(path, "github.com/sashlimit/sash/") {
					continue
				}
				if byPackage[path] == nil {
					byPackage[path] = exported(t, path)
				}
				if count++; !byPackage[path][name[2]] {
					t.Errorf("%s: %s names %s, which package %s has not", page, span, name[0], path)
				}
			}
		}
	}
	if count < 100 {
		t.Errorf("%d names, want at least 100: were all found?", count)
	}
}

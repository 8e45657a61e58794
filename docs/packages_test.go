package docs_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// comment is that of a package, and the folder of the package.
type comment struct{ dir, pkg, text string }

// comments returns those of all public packages.
func comments(t *testing.T) (found []comment) {
	t.Helper()
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		skipped := []string{"internal", "examples", "bench", "testdata"}
		if name := entry.Name(); entry.IsDir() && path != ".." &&
			(strings.HasPrefix(name, ".") || slices.Contains(skipped, name)) {
			return fs.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil || file.Doc == nil {
			return err
		}
		found = append(found, comment{filepath.Dir(path), file.Name.Name, file.Doc.Text()})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) < 15 {
		t.Errorf("%d packages, want at least 15: were all found?", len(found))
	}
	return found
}

// givenPackages is what the example of a package may use beside given[""], where no page of
// the same name gives something else.
const givenPackages = `var ctx context.Context
var limiter *core.Limiter
var store *memstore.Store
var authenticate func(http.Handler) http.Handler
`

var (
	indented = regexp.MustCompile(`(?m)(?:^\t.*\n)+`)
	omitted  = regexp.MustCompile(`(?m)^\.\.\.$|,? \.\.\.`)
)

// exampleSource makes a file of the example of a package.
func exampleSource(c comment, example string) string {
	code := strings.ReplaceAll("\n"+example, "\n\t", "\n")
	code = strings.ReplaceAll(omitted.ReplaceAllString(code, ""), "mystore.", "memstore.")
	place := filepath.Base(c.dir)
	switch c.pkg {
	case "sashecho":
		place = echo4
	case "sashecho5":
		place = "echo"
	case "nethttp":
		place = "nethttp.md"
	}
	names, ok := given[place]
	if !ok {
		names = givenPackages
	}
	if !strings.HasPrefix(code, "\nfunc ") {
		if strings.Contains(code, "err :=") {
			code += "_ = err\n"
		}
		code = function("_()", code)
	}
	return withImports(place, given[""]+names+code)
}

// TestPackagesBeginWithAnExample: the comment of every public package shows code before its
// first heading, and the code compiles.
func TestPackagesBeginWithAnExample(t *testing.T) {
	modules := map[string]string{} // where the examples of a module go, by its folder
	for _, c := range comments(t) {
		first, _, _ := strings.Cut(c.text, "\n# ")
		example := indented.FindString(first)
		if example == "" {
			t.Errorf("%s: the package comment has no example before its first heading", c.dir)
		}
		if c.pkg == "main" || strings.HasPrefix(c.pkg, "adapt") {
			continue // an example for a shell, and those for a framework that does not exist
		}
		module := moduleOf(t, c.dir)
		if modules[module] == "" {
			modules[module] = t.TempDir()
			writeModule(t, modules[module], module)
		}
		dir := filepath.Join(modules[module], c.pkg)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, "example.go"), exampleSource(c, example))
	}
	for _, dir := range modules {
		runGo(t, dir, "vet", "./...")
	}
}

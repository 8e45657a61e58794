package adaptertest

import (
	"go/scanner"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/sashlimit/sash"

// TestDependencies: an adapter compiles no framework but its own, and no store.
func TestDependencies(t *testing.T) {
	roots := map[string]string{
		"chi":   "github.com/go-chi/",
		"gin":   "github.com/gin-gonic/",
		"echo":  "github.com/labstack/echo/v4",
		"echo5": "github.com/labstack/echo/v5",
	}
	foreign := []string{"redis", "memstore", "redisstore", "echo/v4/middleware", "echo/v5/middleware"}
	foreign = slices.AppendSeq(foreign, maps.Values(roots))
	for name, own := range roots {
		const format = "{{if not .Standard}}{{.ImportPath}}{{end}}"
		out, err := exec.Command("go", "list", "-deps", "-f", format, module+"/"+name).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		found := false
		for _, p := range strings.Fields(string(out)) {
			found = found || strings.HasPrefix(p, own)
			for _, other := range foreign {
				if other != own && strings.Contains(p, other) {
					t.Errorf("%s compiles %s", name, p)
				}
			}
			alone := name == "chi" || name == "echo5" // these frameworks need the standard library alone
			if alone && !strings.HasPrefix(p, own) && !strings.HasPrefix(p, module+"/") {
				t.Errorf("%s compiles %s", name, p)
			}
		}
		if !found {
			t.Errorf("%s does not compile its own framework: is the list right?", name)
		}
	}
}

// TestSuiteDependencies: the suite needs no framework and no Redis, only the standard library
// and this module.
func TestSuiteDependencies(t *testing.T) {
	const format = "{{if not .Standard}}{{.ImportPath}}{{end}}"
	out, err := exec.Command("go", "list", "-deps", "-f", format, module+"/nethttp/adaptertest").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	packages := strings.Fields(string(out))
	if len(packages) < 8 {
		t.Errorf("only %q: is the list right?", packages)
	}
	for _, p := range packages {
		if !strings.HasPrefix(p, module+"/") || strings.Contains(p, "redis") {
			t.Errorf("%s is compiled in", p)
		}
	}
}

// TestSize: an adapter has fewer than 50 lines of code, since all decisions are
// made behind package adapt.
func TestSize(t *testing.T) {
	for _, name := range []string{"chi", "gin", "echo", "echo5"} {
		files, err := filepath.Glob("../../" + name + "/*.go")
		if err != nil || len(files) == 0 {
			t.Fatal(err, files)
		}
		lines := 0
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			// A line counts as code if a token begins on it.
			set := token.NewFileSet()
			var s scanner.Scanner
			s.Init(set.AddFile(file, -1, len(source)), source, nil, 0)
			code := map[int]bool{}
			for {
				at, what, _ := s.Scan()
				if what == token.EOF {
					break
				}
				code[set.Position(at).Line] = true
			}
			lines += len(code)
		}
		if lines < 20 || lines >= 50 {
			t.Errorf("%s has %d lines of code", name, lines)
		}
	}
}

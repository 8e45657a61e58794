package bench

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// sources are the packages that a program imports for middleware of net/http or echo that
// counts in memory; for redis_rate, which has none, its own.
var sources = map[string][]string{
	"sash log": {
		"github.com/sashlimit/sash/nethttp", "github.com/sashlimit/sash/keyfuncs",
		"github.com/sashlimit/sash/core/memstore",
	},
	"httprate": {"github.com/go-chi/httprate"},
	"ulule": {
		"github.com/ulule/limiter/v3/drivers/middleware/stdlib", "github.com/ulule/limiter/v3/drivers/store/memory",
	},
	"redis_rate": {"github.com/go-redis/redis_rate/v10"},
	"throttled":  {"github.com/throttled/throttled/v2/store/memstore"},
	"tollbooth":  {"github.com/didip/tollbooth/v7"},
	"go-limiter": {"github.com/sethvargo/go-limiter/httplimit", "github.com/sethvargo/go-limiter/memorystore"},
}

// listed is a package as go list has it.
type listed struct {
	module, dir    string
	files, imports []string
}

// list returns the packages that sources need, by path.
func list(t *testing.T) map[string]listed {
	t.Helper()
	args := []string{"list", "-deps", "-f",
		`{{.ImportPath}}|{{with .Module}}{{.Path}}{{end}}|{{.Dir}}|{{join .GoFiles " "}}|{{join .Imports " "}}`}
	for _, paths := range sources {
		args = append(args, paths...)
	}
	out, err := exec.Command("go", args...).Output()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]listed{}
	for line := range strings.Lines(string(out)) {
		f := strings.Split(strings.TrimSpace(line), "|")
		all[f[0]] = listed{f[1], f[2], strings.Fields(f[3]), strings.Fields(f[4])}
	}
	return all
}

// TestSizes: how much code a library is, and how many modules it needs, is what
// docs/comparison.md says: lines without tests, rounded to tens; of sash, which changes, to
// within a tenth.
func TestSizes(t *testing.T) {
	all := list(t)
	for name, roots := range sources {
		own, modules, lines := all[roots[0]].module, map[string]bool{}, 0
		seen := map[string]bool{}
		for next := roots; len(next) > 0; {
			path := next[0]
			next = append([]string{}, next[1:]...)
			p := all[path]
			if seen[path] || p.module == "" {
				continue // of the standard library
			}
			seen[path] = true
			next = append(next, p.imports...)
			if p.module != own {
				modules[p.module] = true
				continue
			}
			for _, file := range p.files {
				text, err := os.ReadFile(filepath.Join(p.dir, file))
				if err != nil {
					t.Fatal(err)
				}
				lines += bytes.Count(text, []byte("\n"))
			}
		}
		share := 5.01 / float64(lines) // rounded to tens
		if name == "sash log" {
			share = 0.1
		}
		about(t, name, linesColumn, float64(lines), share)
		wantCell(t, name, modulesColumn, strconv.Itoa(len(modules)))
	}
}

// TestHeap: what a client takes of the heap is about what docs/comparison.md says: within a tenth. Tables of a library
// double, so a number is that of 100,000 clients alone.
func TestHeap(t *testing.T) {
	for _, l := range peerLibraries() {
		if l.name != "echo v5" { // docs/comparison.md has echo v4 alone
			about(t, l.name, heapColumn, heapOf(t, l, 125_000), 0.1)
		}
	}
}

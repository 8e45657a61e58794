package bench

import (
	"bytes"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/sashlimit/sash/internal/redistest"
)

// sources are the packages that a program imports for middleware of net/http or echo that
// counts in memory; for redis_rate, which has none, its own.
var sources = map[string][]string{
	"sash log": {
		"github.com/sashlimit/sash/nethttp", "github.com/sashlimit/sash/keyfuncs", "github.com/sashlimit/sash/core/memstore",
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
		said, err := strconv.Atoi(strings.ReplaceAll(cell(t, name, linesColumn), ",", ""))
		allowed := 5.0
		if name == "sash log" {
			allowed = float64(lines) / 10
		}
		if err != nil || math.Abs(float64(said-lines)) > allowed {
			t.Errorf("%s has %d lines, and docs/comparison.md says %d (%v)", name, lines, said, err)
		}
		wantCell(t, name, modulesColumn, strconv.Itoa(len(modules)))
	}
}

// TestHeapIsAsMeasured: docs/comparison.md quotes the results of this module's README.
func TestHeapIsAsMeasured(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, heap, _ := strings.Cut(string(text), "| heap, bytes per live key")
	heap, _, _ = strings.Cut(heap, "\n| script")
	results := regexp.MustCompile(`\| ([^|]+) \| ([0-9.]+) B \|`).FindAllStringSubmatch(heap, -1)
	for _, result := range results {
		if strings.Contains(result[1], "entries") {
			continue
		}
		bytes, err := strconv.ParseFloat(result[2], 64)
		if err != nil {
			t.Fatal(err)
		}
		wantCell(t, peerRow(result[1]), heapColumn, strconv.Itoa(int(math.Round(bytes))))
	}
	if len(results) < 9 {
		t.Errorf("%d results of the part memory, want at least 9", len(results))
	}
}

// TestKeysInRedis: what the keys of a client take in Redis after 100 requests is about what
// docs/comparison.md says: within a fifth, since servers of other versions differ.
func TestKeysInRedis(t *testing.T) {
	ctx := t.Context()
	for _, name := range redisPeers {
		rdb := redistest.Start(t).Client(t)
		decide := openPeer(t, name, 1000, rdb)
		for range 100 {
			if err := decide(1); err != nil {
				t.Fatal(err)
			}
		}
		keys, err := rdb.Keys(ctx, "*").Result()
		if err != nil {
			t.Fatal(err)
		}
		measured := int64(0)
		for _, key := range keys {
			bytes, err := rdb.MemoryUsage(ctx, key).Result()
			if err != nil {
				t.Fatal(err)
			}
			measured += bytes
		}
		said, err := strconv.ParseFloat(strings.ReplaceAll(cell(t, name, keysColumn), ",", ""), 64)
		if err != nil || math.Abs(said/float64(measured)-1) > 0.2 {
			t.Errorf("%s: %d bytes, and docs/comparison.md says %v (%v)", name, measured, said, err)
		}
	}
}

package docs_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// published are the modules that programs require, by their folders.
var published = []string{
	".", "chi", "gin", "echo", "echo5", "extra/sashprom", "extra/sashotel", "extra/sashgrpc",
}

// requirements is what a test reads of a go.mod.
type requirements struct {
	Module  struct{ Path string }
	Go      string
	Require []struct {
		Path, Version string
		Indirect      bool
	}
	Replace []struct{ New struct{ Path string } }
}

// TestModules: all modules that programs require are of the same Go and the same sash, and each is named as its
// folder. The root requires nothing but its own three; an adapter its framework and sash.
func TestModules(t *testing.T) {
	work, err := os.ReadFile("../go.work")
	if err != nil {
		t.Fatal(err)
	}
	versions := map[string]string{} // of Go and of sash, by the first module that has one
	for _, dir := range published {
		out, err := exec.Command("go", "mod", "edit", "-json", filepath.Join("..", dir, "go.mod")).Output()
		if err != nil {
			t.Fatal(err)
		}
		var m requirements
		if err := json.Unmarshal(out, &m); err != nil {
			t.Fatal(err)
		}
		if want := strings.TrimSuffix("github.com/sashlimit/sash/"+dir, "/."); m.Module.Path != want {
			t.Errorf("%s is the module %s, want %s", dir, m.Module.Path, want)
		}
		own := []string{"github.com/alicebob/miniredis/v2", "github.com/redis/go-redis/v9"}
		if dir != "." {
			own = []string{"github.com/sashlimit/sash"}
		}
		has := map[string]string{"go": m.Go}
		for _, r := range m.Require {
			if r.Indirect {
				continue
			}
			if strings.HasPrefix(r.Path, "github.com/sashlimit/") {
				has["sash"] = r.Version
			}
			if i := slices.Index(own, r.Path); i >= 0 {
				own = slices.Delete(own, i, i+1)
			} else if dir == "." {
				t.Errorf("the root requires %s", r.Path)
			}
		}
		if len(own) > 0 {
			t.Errorf("%s does not require %v", dir, own)
		}
		for what, version := range has {
			if versions[what] == "" {
				versions[what] = version
			}
			if version != versions[what] {
				t.Errorf("%s requires %s %s, others %s", dir, what, version, versions[what])
			}
		}
		for _, r := range m.Replace {
			if r.New.Path != strings.Repeat("../", strings.Count(dir, "/"))+".." {
				t.Errorf("%s replaces sash by %s, which is not the root", dir, r.New.Path)
			}
		}
		if !strings.Contains(string(work)+"\n", "\t./"+dir+"\n") && dir != "." {
			t.Errorf("go.work does not use %s", dir)
		}
	}
}

// TestGraphOfAProgram: a program that counts in memory behind net/http gets no framework and nothing of golang.org/x.
// What it compiles is asked by TestDependencies of adaptertest.
func TestGraphOfAProgram(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "go.mod"), "module program\n\ngo 1.26.0\n\n"+
		"require github.com/sashlimit/sash v0.0.0\n\n"+
		"replace github.com/sashlimit/sash => "+absolute(t, "..")+"\n")
	write(t, filepath.Join(dir, "main.go"), `package main

import (
	_ "github.com/sashlimit/sash/core/memstore"
	_ "github.com/sashlimit/sash/nethttp"
)

func main() {}
`)
	runGo(t, dir, "mod", "tidy")
	graph := runGo(t, dir, "mod", "graph")
	for _, foreign := range []string{"golang.org/x", "go-chi", "gin-gonic", "labstack", "prometheus", "grpc"} {
		if strings.Contains(graph, foreign) {
			t.Errorf("the graph has %s:\n%s", foreign, graph)
		}
	}
}

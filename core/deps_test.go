package core_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestDependencies: the engine is the standard library, itself, its own internal packages, words for errors, and codes.
func TestDependencies(t *testing.T) {
	const module = "github.com/sashlimit/sash/"
	const core = module + "core"
	const format = "{{if not .Standard}}{{.ImportPath}}{{end}}"
	out, err := exec.Command("go", "list", "-deps", "-f", format, core).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	want := []string{core + "/internal/waitqueue", module + "internal/errs",
		module + "internal/notice", core}
	if got := strings.Fields(string(out)); !slices.Equal(got, want) {
		t.Errorf("%s compiles %q, want %q", core, got, want)
	}
}

package core_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestDependencies: the engine is the standard library, itself, and words for errors.
func TestDependencies(t *testing.T) {
	const core = "github.com/sashlimit/sash/core"
	const format = "{{if not .Standard}}{{.ImportPath}}{{end}}"
	out, err := exec.Command("go", "list", "-deps", "-f", format, core).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	want := []string{"github.com/sashlimit/sash/internal/errs", core}
	if got := strings.Fields(string(out)); !slices.Equal(got, want) {
		t.Errorf("%s compiles %q, want %q", core, got, want)
	}
}

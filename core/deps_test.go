package core_test

import (
	"os/exec"
	"strings"
	"testing"
)

// TestDependencies: the engine is the standard library and itself.
func TestDependencies(t *testing.T) {
	const core = "github.com/sashlimit/sash/core"
	const format = "{{if not .Standard}}{{.ImportPath}}{{end}}"
	out, err := exec.Command("go", "list", "-deps", "-f", format, core).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got := strings.Fields(string(out)); len(got) != 1 || got[0] != core {
		t.Errorf("%s compiles %q, want only itself", core, got)
	}
}

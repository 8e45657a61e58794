package nethttp_test

import (
	"os/exec"
	"strings"
	"testing"
)

// A program that limits in memory behind net/http compiles no Redis and no
// framework: nothing but the standard library and this module.
func TestDependencies(t *testing.T) {
	const module = "github.com/sashlimit/sash"
	const format = "{{if not .Standard}}{{.ImportPath}}{{end}}"
	out, err := exec.Command("go", "list", "-deps", "-f", format, module+"/nethttp", module+"/core/memstore").
		CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	packages := strings.Fields(string(out))
	if len(packages) < 5 {
		t.Errorf("only %q: is the list right?", packages)
	}
	for _, p := range packages {
		if !strings.HasPrefix(p, module+"/") || strings.HasSuffix(p, "/redisstore") {
			t.Errorf("%s is compiled in", p)
		}
	}
}

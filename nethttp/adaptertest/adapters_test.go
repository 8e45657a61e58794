package adaptertest

import (
	"os/exec"
	"strings"
	"testing"
)

// TestDependencies: an adapter compiles no framework but its own, and no store. What needs no framework compiles
// nothing but the standard library and this module.
func TestDependencies(t *testing.T) {
	const alone = "-"
	for name, c := range map[string]struct {
		own, foreign string // the beginning of what it compiles beside; parts of what it does not, in words
	}{
		"chi":                 {"github.com/go-chi/", "redis"},
		"gin":                 {"github.com/gin-gonic/", "redis labstack go-chi"},
		"echo":                {"github.com/labstack/echo/v4", "redis gin-gonic go-chi echo/v5 echo/v4/middleware"},
		"echo5":               {"github.com/labstack/echo/v5", "redis echo/v5/middleware"},
		"core/memstore":       {alone, "redis"},
		"nethttp":             {alone, "redis"},
		"nethttp/adaptertest": {alone, "redis"},
	} {
		const format = "{{if not .Standard}}{{.ImportPath}}{{end}}"
		list := exec.Command("go", "list", "-deps", "-f", format, ".")
		list.Dir = "../../" + name // chi and the like are modules of their own
		out, err := list.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		found := c.own == alone
		for _, p := range strings.Fields(string(out)) {
			own := strings.HasPrefix(p, c.own)
			found = found || own
			needsOthers := name == "gin" || name == "echo"
			if !own && !needsOthers && !strings.HasPrefix(p, "github.com/sashlimit/sash/") {
				t.Errorf("%s compiles %s, want the standard library and this module beside its own", name, p)
			}
			for _, foreign := range strings.Fields(c.foreign) {
				if strings.Contains(p, foreign) {
					t.Errorf("%s compiles %s, want none with %s", name, p, foreign)
				}
			}
		}
		if !found {
			t.Errorf("%s compiles %s, want its own framework among it", name, out)
		}
	}
}

package docs_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var replaced = regexp.MustCompile(`=> (\.\S*)`)

// writeModule makes dir a module that sees the one in folder as it is here, and the same
// versions of everything else.
func writeModule(t *testing.T, dir, folder string) {
	t.Helper()
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		if name == "go.mod" {
			first, rest, _ := strings.Cut(string(text), "\n")
			rest = replaced.ReplaceAllStringFunc(rest, func(to string) string {
				return fmt.Sprintf("=> %q", absolute(t, filepath.Join(folder, strings.TrimPrefix(to, "=> "))))
			})
			module := strings.TrimPrefix(first, "module ")
			text = fmt.Appendf(nil, "module snippets\n%s\nrequire %s v0.0.0\n\nreplace %[2]s => %q\n",
				rest, module, absolute(t, folder))
		}
		write(t, filepath.Join(dir, name), string(text))
	}
}

// moduleOf returns the folder of the module that a folder belongs to.
func moduleOf(t *testing.T, dir string) string {
	t.Helper()
	for ; dir != ".."; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
	}
	return dir
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// runGo runs the go command in dir and returns what it says.
func runGo(t *testing.T, dir string, args ...string) string {
	t.Helper()
	run := exec.Command("go", args...)
	run.Dir = dir
	out, err := run.CombinedOutput()
	if err != nil {
		t.Errorf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

package docs_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestWorkflow: the workflow of GitHub tests with the oldest Go that go.mod allows, and its
// commands are targets of the Makefile.
func TestWorkflow(t *testing.T) {
	read := func(file string) string {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	workflow, makefile := read("../.github/workflows/ci.yml"), read("../Makefile")
	oldest := regexp.MustCompile(`(?m)^go (\S+)$`).FindStringSubmatch(read("../go.mod"))
	if oldest == nil || !strings.Contains(workflow, `go: ["`+oldest[1]+`"`) {
		t.Errorf("go.mod says %q, which is not the first Go of the workflow", oldest)
	}
	commands := regexp.MustCompile(`(?m)^\s+- run: (.*)$`).FindAllStringSubmatch(workflow, -1)
	if len(commands) < 3 {
		t.Errorf("the workflow runs %q, want tests, lint and audit", commands)
	}
	for _, command := range commands {
		target, ok := strings.CutPrefix(command[1], "make ")
		if !ok || !strings.Contains(makefile, "\n"+target+":") {
			t.Errorf("the workflow runs %q, want a target of the Makefile", command[1])
		}
	}
}

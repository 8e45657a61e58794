package docs_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestEveryPackageIsInDesign: design.md says of each package what is in it.
func TestEveryPackageIsInDesign(t *testing.T) {
	out, err := exec.Command("go", "list", "../...").Output()
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("design.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range strings.Fields(string(out)) {
		dir := strings.TrimPrefix(path, "github.com/sashlimit/sash/")
		if !strings.Contains(string(page), "`"+dir+"`") && !strings.HasPrefix(dir, "examples") && dir != "docs" {
			t.Errorf("design.md does not say what is in `%s`", dir)
		}
	}
}

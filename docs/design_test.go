package docs_test

import (
	"os"
	"strings"
	"testing"
)

// TestEveryPackageIsInDesign: design.md says of each package what is in it.
func TestEveryPackageIsInDesign(t *testing.T) {
	var packages []string
	for _, module := range []string{"..", "../chi", "../gin", "../echo", "../echo5"} {
		packages = append(packages, strings.Fields(runGo(t, module, "list", "./..."))...)
	}
	page, err := os.ReadFile("design.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range packages {
		dir := strings.TrimPrefix(path, "github.com/sashlimit/sash/")
		if !strings.Contains(string(page), "`"+dir+"`") && dir != "docs" {
			t.Errorf("design.md does not say what is in `%s`", dir)
		}
	}
}

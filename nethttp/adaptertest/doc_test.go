package adaptertest

import (
	"os"
	"regexp"
	"testing"
)

// TestDocumented: the package comment says what each subtest proves.
func TestDocumented(t *testing.T) {
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range suite {
		if !regexp.MustCompile(`(?m)^//\t(\w+, )*` + c.name + `\b`).Match(text) {
			t.Errorf("the package comment does not say what %s proves", c.name)
		}
	}
}

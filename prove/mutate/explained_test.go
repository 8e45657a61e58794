package main

import (
	"slices"
	"strings"
	"testing"
)

// TestExplained holds that each line of explained.txt fits one mutant of the code of today, and has a reason.
func TestExplained(t *testing.T) {
	t.Chdir("../..")
	entry := ""
	for i, line := range append(lines(explained), "end") {
		dir, _, _ := strings.Cut(line, ": ")
		switch isReason := strings.HasPrefix(line, "\t"); {
		case isReason == (entry == ""):
			t.Errorf("line %d: a mutant without a reason, or a reason without a mutant: %s", i+1, line)
		case !isReason && line != "end" && !slices.Contains(packages, dir):
			t.Errorf("line %d: no such package: %s", i+1, line)
		}
		if entry = line; strings.HasPrefix(line, "\t") {
			entry = ""
		}
	}
	for _, dir := range packages {
		if _, err := (&pkg{dir: dir}).find(); err != nil {
			t.Error(err)
		}
	}
}

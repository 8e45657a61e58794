package bench

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The columns of docs/comparison.md whose cells tests of this package measure.
const (
	worstColumn      = "most in any window, limit 10"
	tripsColumn      = "round trips for a decision"
	sentColumn       = "times a decision is sent"
	waitColumn       = "a request waits for a silent Redis"
	keysColumn       = "bytes of a client after 100 requests"
	fieldsColumn     = "fields about the limit"
	retryColumn      = "Retry-After"
	neighboursColumn = "two addresses of one IPv6 /64"
	heapColumn       = "bytes for a client"
	linesColumn      = "lines of code"
	modulesColumn    = "other modules"
	comparisonPage   = "../docs/comparison.md"
	comparedLibrary  = "library" // heads the first column of each table
)

// table is a table of a page: texts, with their links.
type table struct {
	columns []string
	rows    [][]string
}

// tables returns the tables of a page that compare libraries.
func tables(t *testing.T, page string) []table {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var all []table
	within := false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "| ") {
			within = within && strings.HasPrefix(line, "|-")
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case within:
			last := &all[len(all)-1]
			last.rows = append(last.rows, cells)
		case cells[0] == comparedLibrary:
			all, within = append(all, table{columns: cells}), true
		}
	}
	if len(all) == 0 {
		t.Fatalf("%s has no table that begins with a column %q", page, comparedLibrary)
	}
	return all
}

var (
	// evidence is a link to what proves a cell: its title is the test, or words of the source.
	evidence = regexp.MustCompile(`\s*\[(?:test|source)\]\(([^ )]+) "([^"]+)"\)`)
	anyLink  = regexp.MustCompile(`\[([^]]+)\]\([^)]+\)`)
)

// plain returns a cell without what proves it, and without other links.
func plain(cell string) string {
	return anyLink.ReplaceAllString(evidence.ReplaceAllString(cell, ""), "$1")
}

// cell returns the plain text of docs/comparison.md in a row and a column.
func cell(t *testing.T, row, column string) string {
	t.Helper()
	for _, table := range tables(t, comparisonPage) {
		i := slices.IndexFunc(table.columns, func(name string) bool { return plain(name) == column })
		if i < 0 {
			continue
		}
		for _, cells := range table.rows {
			if plain(cells[0]) == row {
				return plain(cells[i])
			}
		}
	}
	t.Fatalf("%s has no row %q in a table with a column %q", comparisonPage, row, column)
	return ""
}

// wantCell checks that docs/comparison.md says what was measured.
func wantCell(t *testing.T, row, column, measured string) {
	t.Helper()
	if said := cell(t, row, column); said != measured {
		t.Errorf("%s, %s: measured %q, and docs/comparison.md says %q", row, column, measured, said)
	}
}

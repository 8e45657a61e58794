package bench

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestComparisonIsProved: each cell of docs/comparison.md, or the head of its column, has
// a link to what proves it.
func TestComparisonIsProved(t *testing.T) {
	for _, table := range tables(t, comparisonPage) {
		for _, cells := range table.rows {
			if len(cells) != len(table.columns) {
				t.Errorf("%q has %d cells, want %d", cells, len(cells), len(table.columns))
				continue
			}
			for i, cell := range cells[1:] {
				if !evidence.MatchString(cell) && !evidence.MatchString(table.columns[i+1]) {
					t.Errorf("%s, %s: nothing proves %q", cells[0], plain(table.columns[i+1]), cell)
				}
			}
		}
	}
}

// TestComparisonLinks: each link of docs/comparison.md that proves something leads to a
// test, or to lines of a source, at the version that go.mod has, in which its title stands.
func TestComparisonLinks(t *testing.T) {
	page, err := os.ReadFile(comparisonPage)
	if err != nil {
		t.Fatal(err)
	}
	modules := modules(t)
	count := 0
	for _, link := range evidence.FindAllStringSubmatch(string(page), -1) {
		count++
		url, title := link[1], link[2]
		if path, ok := strings.CutPrefix(url, "https://github.com/"); ok {
			checkSource(t, modules, path, title)
			continue
		}
		file, lines, _ := strings.Cut(url, "#")
		want := title
		if strings.HasSuffix(file, "_test.go") {
			want = "func " + title + "("
		}
		checkLines(t, filepath.Join("../docs", file), lines, want)
	}
	if all := strings.Count(string(page), "[source]") + strings.Count(string(page), "[test]"); count != all ||
		count < 50 {
		t.Errorf("%d of %d links were checked, want all of at least 50", count, all)
	}
}

// modules returns the folder of each module that this one is built of, by "owner/name@version".
func modules(t *testing.T) map[string]string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Path}} {{.Version}} {{.Dir}}", "all").Output()
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`/v\d+$`)
	folders := map[string]string{}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if repository, ok := strings.CutPrefix(fields[0], "github.com/"); ok && len(fields) == 3 {
			folders[version.ReplaceAllString(repository, "")+"@"+fields[1]] = fields[2]
		}
	}
	return folders
}

// checkSource checks a link into the source of a module: owner/name/blob/version/file#lines.
func checkSource(t *testing.T, modules map[string]string, path, title string) {
	t.Helper()
	parts := strings.SplitN(path, "/", 5)
	if len(parts) < 5 || parts[2] != "blob" {
		t.Errorf("%s is no link to a file", path)
		return
	}
	folder, ok := modules[parts[0]+"/"+parts[1]+"@"+parts[3]]
	if !ok {
		t.Errorf("%s: go.mod has another version, or the module is not in Go's cache: go mod download", path)
		return
	}
	file, lines, _ := strings.Cut(parts[4], "#")
	if lines == "" {
		t.Errorf("%s names no lines", path)
	}
	checkLines(t, filepath.Join(folder, file), lines, title)
}

// checkLines checks that a text stands in lines of a file: "L3", "L3-L7", or "" for all.
func checkLines(t *testing.T, file, lines, want string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Error(err)
		return
	}
	all := strings.SplitAfter(string(text), "\n")
	from, to := 1, len(all)
	if lines != "" {
		begin, end, ok := strings.Cut(lines, "-")
		if !ok {
			end = begin
		}
		from, _ = strconv.Atoi(strings.TrimPrefix(begin, "L"))
		to, _ = strconv.Atoi(strings.TrimPrefix(end, "L"))
		if from < 1 || to < from || to > len(all) {
			t.Errorf("%s has %d lines, and none of %s", file, len(all), lines)
			return
		}
	}
	if !strings.Contains(strings.Join(all[from-1:to], ""), want) {
		t.Errorf("%s#%s does not say %q", file, lines, want)
	}
}

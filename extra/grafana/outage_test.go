// Package grafana_test holds the dashboard and the alerts of this folder against a real
// Prometheus that scrapes a program through an outage of its Redis.
package grafana_test

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sashlimit/sash/internal/redistest"
)

// shortRange takes the place of the ranges of five minutes, and of Grafana's
// $__rate_interval.
const shortRange = "3s"

// want is what a query is to return.
type want string

const (
	nothing  want = "nothing"
	zero     want = "zeros"
	some     want = "some value"
	positive want = "a value above 0"
)

// met reports whether a query returned what it should.
func (w want) met(samples []sample) bool {
	above := slices.ContainsFunc(samples, func(s sample) bool { return s.value > 0 })
	switch w {
	case nothing:
		return len(samples) == 0
	case zero:
		return len(samples) > 0 && !above
	case some:
		return len(samples) > 0
	}
	return above
}

// phase is a part of the walk.
type phase int

const (
	healthy phase = iota
	outage
	recovered
)

func (p phase) String() string { return [...]string{"healthy", "outage", "recovered"}[p] }

// steady are the wants of what an outage does not change.
var steady = [...]want{positive, positive, positive}

// failure are the wants of what is 0 without an outage.
var failure = [...]want{zero, positive, zero}

// expected says what each query is to return, by the title of its panel and its letter.
var expected = map[string][3]want{
	"Decisions by outcome A":         steady,
	"Share of refused requests A":    steady,
	"Decided without the store A":    failure,
	"Notices A":                      {nothing, positive, nothing},
	"Duration of decisions A":        steady,
	"Duration of decisions B":        steady,
	"Store errors A":                 failure,
	"Breakers A":                     failure,
	"Failing for A":                  {nothing, positive, nothing},
	"Trips of breakers A":            failure,
	"Requests in a batch A":          {positive, some, positive},
	"Requests in a batch B":          steady,
	"Scripts A":                      steady, // in an outage, to try whether the server is back
	"Scripts B":                      {some, some, some},
	"Answered without Redis A":       {positive, some, positive},
	"Answered without Redis B":       {positive, some, positive},
	"Leases A":                       {positive, some, positive},
	"Leases B":                       {positive, some, positive},
	"Memory of the store A":          steady,
	"Memory of the store B":          steady,
	"Slots A":                        steady,
	"Evictions and early refusals A": failure,
	"Evictions and early refusals B": failure,
	"Evictions and early refusals C": {zero, some, zero},
	"Evictions and early refusals D": failure,
	"Evictions and early refusals E": {zero, some, zero},
}

// question is a query of the dashboard.
type question struct {
	name, written, sent string
	want                [3]want
	seen                []sample // what it returned last
}

// questions returns the queries of all panels.
func questions(t *testing.T, d dashboard) []*question {
	t.Helper()
	var all []*question
	for _, p := range d.Panels {
		for _, q := range p.Targets {
			name := p.Title + " " + q.RefID
			wants, ok := expected[name]
			if !ok {
				t.Fatalf("say in expected what the query %q is to return", name)
			}
			sent := d.substitute(q.Expr, shortRange)
			all = append(all, &question{name: name, written: q.Expr, sent: sent, want: wants})
		}
	}
	if len(all) != len(expected) {
		t.Fatalf("%d queries in the dashboard, %d expected", len(all), len(expected))
	}
	return all
}

// shortRules writes the alerts with short ranges and waits, and returns the path.
func shortRules(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	short := strings.ReplaceAll(string(text), "[5m]", "["+shortRange+"]")
	short = regexp.MustCompile(`(?m)^( +for:) .*$`).ReplaceAllString(short, "$1 1s")
	path := filepath.Join(t.TempDir(), "alerts.yml")
	if err := os.WriteFile(path, []byte(short), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestOutage walks through healthy load, an outage of Redis with other trouble beside
// it, and recovery. Each query of the dashboard returns in each phase what it should,
// all alerts fire in the outage, and none before or after it.
func TestOutage(t *testing.T) {
	all := questions(t, readDashboard(t))
	server := redistest.Start(t)
	l := load{program: newProgram(t, server)}
	wrong := newMistaken(t)
	p := startPrometheus(t, shortRules(t), address(l.program.exporter), address(wrong.exporter))
	l.start(t)

	awaitQueries(t, p, healthy, all)
	wantQuiet(t, p)
	checkVariables(t, p)

	server.Pause()
	l.flooding.Store(true)
	wrong.limiter.Allow(t.Context(), "k") // its first decision
	awaitQueries(t, p, outage, all)
	names := p.alertNames(t)
	fired := map[string]bool{}
	redistest.WaitFor(t, "all alerts to fire", func() error {
		firing, _ := p.alerts(t)
		for name := range firing {
			fired[name] = true
		}
		if len(fired) < len(names) || len(names) == 0 {
			return fmt.Errorf("of %q these have fired: %v", names, slices.Sorted(maps.Keys(fired)))
		}
		return nil
	})

	for _, q := range all {
		q.seen = p.query(t, q.sent)
	}
	t.Logf("The panels during the outage:\n\n%s", table(all))

	server.Resume()
	l.flooding.Store(false)
	wrong.exporter.Close() // it is repaired, which takes a restart
	awaitQueries(t, p, recovered, all)
	redistest.WaitFor(t, "all alerts to end", func() error {
		if firing, pending := p.alerts(t); len(firing)+len(pending) > 0 {
			return fmt.Errorf("firing %v, pending %v", firing, pending)
		}
		return nil
	})
}

// awaitQueries waits until each query has returned what it should in a phase. A query
// that has is not asked again: a breaker trips once in an outage.
func awaitQueries(t *testing.T, p *prometheusServer, now phase, all []*question) {
	t.Helper()
	open := slices.Clone(all)
	redistest.WaitFor(t, "the panels to show the phase "+now.String(), func() error {
		var unmet []error
		open = slices.DeleteFunc(open, func(q *question) bool {
			q.seen = p.query(t, q.sent)
			if q.want[now].met(q.seen) {
				return true
			}
			unmet = append(unmet, fmt.Errorf("%s: %v, want %s: %s", q.name, q.seen, q.want[now], q.sent))
			return false
		})
		return errors.Join(unmet...)
	})
}

// wantQuiet fails if an alert fires or is about to.
func wantQuiet(t *testing.T, p *prometheusServer) {
	t.Helper()
	if firing, pending := p.alerts(t); len(firing)+len(pending) > 0 {
		t.Errorf("under healthy load: firing %v, pending %v, want none", firing, pending)
	}
}

// checkVariables fails unless each variable of the dashboard finds values.
func checkVariables(t *testing.T, p *prometheusServer) {
	t.Helper()
	d := readDashboard(t)
	values := regexp.MustCompile(`^label_values\((.+), (\w+)\)$`)
	for _, v := range d.Templating.List {
		if v.Type != "query" {
			continue
		}
		match := values.FindStringSubmatch(v.Definition)
		if match == nil {
			t.Fatalf("the variable %s is %q, want label_values", v.Name, v.Definition)
		}
		var found []string
		series := url.Values{"match[]": {d.substitute(match[1], shortRange)}}
		p.get(t, "/api/v1/label/"+match[2]+"/values", series, &found)
		if len(found) < 2 {
			t.Errorf("the variable %s has the values %q, want several", v.Name, found)
		}
	}
}

// labelText returns labels in their order.
func labelText(labels map[string]string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		if name != "__name__" && name != "job" && name != "instance" {
			parts = append(parts, name+"="+labels[name])
		}
	}
	return strings.Join(parts, " ")
}

// table returns what the queries returned last, as a table of Markdown.
func table(all []*question) string {
	var b strings.Builder
	fmt.Fprintln(&b, "| panel | query | values |\n|---|---|---|")
	for _, q := range all {
		written := strings.ReplaceAll(q.written, "|", `\|`)
		fmt.Fprintf(&b, "| %s | `%s` | %s |\n", q.name, written, valueText(q.seen))
	}
	return b.String()
}

// valueText returns the greatest values first, and how many are 0.
func valueText(samples []sample) string {
	slices.SortFunc(samples, func(a, b sample) int {
		return cmp.Or(cmp.Compare(b.value, a.value), cmp.Compare(a.labels, b.labels))
	})
	var values []string
	zeros := 0
	for _, s := range samples {
		if s.value == 0 {
			zeros++
			continue
		}
		values = append(values, fmt.Sprintf("%s: %.3g", s.labels, s.value))
	}
	switch {
	case zeros == 1 && len(samples) == 1:
		values = append(values, samples[0].labels+": 0")
	case zeros > 0:
		values = append(values, fmt.Sprintf("0 in %d series", zeros))
	case len(samples) == 0:
		return "none"
	}
	return strings.Join(values, "<br>")
}

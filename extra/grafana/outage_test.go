// Package grafana_test holds the dashboard and the alerts of this folder against a real
// Prometheus that scrapes a program through an outage of its Redis.
package grafana_test

import (
	"errors"
	"fmt"
	"maps"
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

// wants are what a query may have to return, by the letter that stands for it in expected.
var wants = map[byte]struct {
	text string
	met  func(values []float64) bool
}{
	'-': {"nothing", func(values []float64) bool { return len(values) == 0 }},
	'0': {"zeros", func(values []float64) bool { return len(values) > 0 && slices.Max(values) == 0 }},
	'*': {"some value", func(values []float64) bool { return len(values) > 0 }},
	'+': {"a value above 0", func(values []float64) bool { return len(values) > 0 && slices.Max(values) > 0 }},
}

// phases are the parts of the walk.
const (
	healthy = iota
	outage
	recovered
)

// expected says what each query is to return in each phase, by the title of its panel and its letter.
var expected = map[string]string{
	"Age of the latest answer of each region A":                     "---", // the program has one region
	"Age of the latest answer of each region B":                     "---",
	"Clients looked at, and requests that went to another region A": "---",
	"Clients looked at, and requests that went to another region B": "---",
	"Clients looked at, and requests that went to another region C": "---",

	"Decisions by outcome A":         "+++",
	"Share of refused requests A":    "+++",
	"Decided without the store A":    "0+0",
	"Notices A":                      "-+-",
	"Duration of decisions A":        "+++",
	"Duration of decisions B":        "+++",
	"Store errors A":                 "0+0",
	"Breakers A":                     "0+0",
	"Failing for A":                  "-+-",
	"Trips of breakers A":            "0+0",
	"Requests in a batch A":          "+*+",
	"Requests in a batch B":          "+++",
	"Scripts A":                      "+++", // in an outage, to try whether the server is back
	"Scripts B":                      "***",
	"Answered without Redis A":       "+*+",
	"Answered without Redis B":       "+*+",
	"Leases A":                       "+*+",
	"Leases B":                       "+*+",
	"Memory of the store A":          "+++",
	"Memory of the store B":          "+++",
	"Slots A":                        "+++",
	"Evictions and early refusals A": "0+0",
	"Evictions and early refusals B": "0+0",
	"Evictions and early refusals C": "0*0",
	"Evictions and early refusals D": "0+0",
	"Evictions and early refusals E": "0*0",
	"the variable limiter":           "+++", // several values
	"the variable rule":              "+++",
	"the variable store":             "+++",
}

// question is a query of the dashboard.
type question struct{ name, expr, want string }

// labelValues is the query for the values of a variable: its series and its label.
var labelValues = regexp.MustCompile(`^label_values\((.+), (\w+)\)$`)

// questions returns the queries of all panels, and of the variables.
func questions(t *testing.T, d dashboard) (all []question) {
	t.Helper()
	add := func(name, expr string) {
		if len(expected[name]) != recovered+1 {
			t.Fatalf("say in expected what the query %q is to return", name)
		}
		all = append(all, question{name, d.substitute(expr, shortRange), expected[name]})
	}
	for _, p := range d.Panels {
		for _, q := range p.Targets {
			add(p.Title+" "+q.RefID, q.Expr)
		}
	}
	for _, v := range d.Templating.List {
		if match := labelValues.FindStringSubmatch(v.Definition); match != nil {
			add("the variable "+v.Name, "count(count by ("+match[2]+") ("+match[1]+")) - 1")
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
	if firing, pending := p.alerts(t); len(firing)+len(pending) > 0 {
		t.Errorf("under healthy load: firing %v, pending %v, want none", firing, pending)
	}

	server.Pause()
	l.flooding.Store(true)
	wrong.limiter.Allow(t.Context(), "k") // its first decision
	awaitQueries(t, p, outage, all)
	names := p.alertNames(t)
	fired := map[string]int{}
	redistest.WaitFor(t, "all alerts to fire", func() error {
		firing, _ := p.alerts(t)
		maps.Copy(fired, firing)
		if len(fired) < len(names) || len(names) == 0 {
			return fmt.Errorf("of %q these have fired: %v", names, fired)
		}
		return nil
	})

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
func awaitQueries(t *testing.T, p *prometheusServer, phase int, all []question) {
	t.Helper()
	open := slices.Clone(all)
	redistest.WaitFor(t, fmt.Sprint("the panels to show phase ", phase), func() error {
		var unmet []error
		open = slices.DeleteFunc(open, func(q question) bool {
			values, want := p.query(t, q.expr), wants[q.want[phase]]
			if want.met(values) {
				return true
			}
			unmet = append(unmet, fmt.Errorf("%s: %v, want %s: %s", q.name, values, want.text, q.expr))
			return false
		})
		return errors.Join(unmet...)
	})
}

// Package grafana_test holds the dashboard and the alerts of this folder to the metrics of package sashprom, and to
// promtool.
package grafana_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// dashboard is what the tests read of dashboard.json.
type dashboard struct {
	Templating struct{ List []variable }
	Panels     []panel
}

// variable is a variable of the dashboard.
type variable struct {
	Name, Type, AllValue string
	Definition           string // the query for its values
}

// panel is a panel of the dashboard, or a row of panels.
type panel struct {
	ID                       int
	Type, Title, Description string
	Targets                  []target
}

// target is one query of a panel.
type target struct {
	RefID, Expr string
	Datasource  struct{ Type, UID string }
}

func readDashboard(t *testing.T) dashboard {
	t.Helper()
	text, err := os.ReadFile("dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatalf("dashboard.json: %v", err)
	}
	return d
}

// substitute returns a query as Grafana sends it, with the value All of each variable
// and the given range.
func (d dashboard) substitute(expr, rateInterval string) string {
	expr = strings.ReplaceAll(expr, "$__rate_interval", rateInterval)
	for _, v := range d.Templating.List {
		if v.AllValue != "" {
			expr = strings.ReplaceAll(expr, "$"+v.Name, v.AllValue)
		}
	}
	return expr
}

// TestDashboard: Grafana can import the dashboard, and a reader can tell what a panel
// shows. Each query follows the variables.
func TestDashboard(t *testing.T) {
	d := readDashboard(t)
	var names []string
	for _, v := range d.Templating.List {
		names = append(names, v.Name)
	}
	if got := strings.Join(names, " "); got != "datasource limiter rule store" {
		t.Errorf("variables %q, want the data source, the limiter, the rule and the store", got)
	}
	ids, titles := map[int]bool{}, map[string]bool{}
	for _, p := range d.Panels {
		if ids[p.ID] || titles[p.Title] || p.Title == "" {
			t.Errorf("panel %d %q: the ID or the title is there twice, or there is no title", p.ID, p.Title)
		}
		ids[p.ID], titles[p.Title] = true, true
		if p.Type != "row" {
			p.check(t)
		}
	}
}

// check fails unless the panel has what a panel needs.
func (p panel) check(t *testing.T) {
	t.Helper()
	if p.Description == "" || len(p.Targets) == 0 {
		t.Errorf("panel %q has the description %q and %d queries, want some", p.Title, p.Description, len(p.Targets))
	}
	for _, q := range p.Targets {
		if q.Datasource.UID != "${datasource}" || q.Datasource.Type != "prometheus" {
			t.Errorf("panel %q asks %+v, want the chosen data source", p.Title, q.Datasource)
		}
		byRule := strings.Contains(q.Expr, `limiter=~"$limiter", rule=~"$rule"`)
		byStore := strings.Contains(q.Expr, `store=~"$store"`)
		if byRule == byStore {
			t.Errorf("panel %q: %s follows neither the limiter and the rule nor the store, or both", p.Title, q.Expr)
		}
	}
}

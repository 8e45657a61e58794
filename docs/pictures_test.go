package docs_test

import (
	"fmt"
	"strings"
	"testing"
	"text/template"
	"time"
)

// drawnMost is the limit of the pictures of choosing.md. It is smaller than that of the table,
// so that requests can be counted by eye.
const drawnMost = 10

// drawnTraffic is what the pictures show, from 0:40 to 2:20: one client that asks around a full
// minute, and one that asks before it and does not stop.
func drawnTraffic() []traffic {
	before := even(50*time.Second, 10*time.Second, drawnMost)
	around := append(before[:drawnMost:drawnMost], even(window, 10*time.Second, drawnMost)...)
	goesOn := append(before[:drawnMost:drawnMost], even(window, 80*time.Second, 80)...)
	return []traffic{
		{"10 requests before the full minute, and 10 after it", around},
		{"10 requests before the full minute, and one every second after it", goesOn},
	}
}

// lane is one kind of traffic in a picture, and what an algorithm makes of it.
type lane struct {
	Traffic           string
	Top               int // where it is in the picture
	Admitted, Refused []time.Duration
	Begin             time.Duration // of the fullest minute
	Most, Above       int           // how many are admitted in it, and how many of them are above the limit
}

// Verdict says what is in the fullest minute.
func (l lane) Verdict() string {
	if l.Above > 0 {
		return fmt.Sprintf("Worst minute: %d let in, %d too many", l.Most, l.Above)
	}
	return fmt.Sprintf("Worst minute: %d let in, limit kept", l.Most)
}

// drawing is a picture of what an algorithm makes of drawnTraffic, with its words, and fewer words for a page that has
// described the traffic.
type drawing struct {
	Title, Text string
	Alt         string
	Lanes       []lane
	Minutes     []time.Duration
}

func drawingOf(a algorithm) drawing {
	d := drawing{
		Title:   fmt.Sprintf("%s, %d requests a minute", a.name, drawnMost),
		Minutes: []time.Duration{window, 2 * window},
	}
	d.Text, d.Alt = d.Title+".", a.name+":"
	for i, traffic := range drawnTraffic() {
		l := lane{Traffic: traffic.name, Top: 68 + 154*i}
		l.Admitted, l.Refused = a.decide(traffic, drawnMost)
		l.Begin, l.Most = fullest(l.Admitted)
		l.Above = max(0, l.Most-drawnMost)
		d.Lanes = append(d.Lanes, l)
		d.Text += fmt.Sprintf(" %s: %d of %d let in. %s.", l.Traffic, len(l.Admitted), len(traffic.times), l.Verdict())
		d.Alt += fmt.Sprintf(" %d of %d let in, %d in the fullest minute.", len(l.Admitted), len(traffic.times), l.Most)
	}
	return d
}

// svg returns the picture, in the colours of the demo's page. A second is 6 wide, and a request takes its second.
func (d drawing) svg(t *testing.T) string {
	t.Helper()
	pages := template.New("choosing.svg.tmpl").Funcs(template.FuncMap{
		"x": func(at time.Duration) int { return int(6 * (at - 40*time.Second) / time.Second) },
		"clock": func(at time.Duration) string {
			return fmt.Sprintf("%d:%02d", at/time.Minute, at%time.Minute/time.Second)
		},
	})
	var b strings.Builder
	if err := template.Must(pages.ParseFiles("testdata/choosing.svg.tmpl")).Execute(&b, d); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

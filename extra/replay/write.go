package replay

import (
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	texttemplate "text/template"
	"time"

	"github.com/sashlimit/sash/core"
)

// stamp returns the time of a request, which is as in Log.times, in UTC.
func stamp(at uint64) time.Time { return time.UnixMicro(int64(at >> 8)).UTC() }

// count writes a number with commas: 12,908.
func count(n int) string {
	digits := fmt.Sprint(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// several writes a number of things.
func several(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return count(n) + " " + thing
}

// percent writes a share of requests.
func percent(n, of int) string { return fmt.Sprintf("%.3g %%", 100*float64(n)/float64(of)) }

// windowText writes a window as limits do: 1m, 15m, 24h.
func windowText(d time.Duration) string {
	_, text, _ := strings.Cut(core.Per(1, d).String(), "/")
	return text
}

// units are the units in which windows are told.
var units = []struct {
	length    time.Duration
	one, more string
}{{24 * time.Hour, " a day", ""}, {time.Hour, " an hour", "hours"}, {time.Minute, " a minute", "minutes"},
	{time.Second, " a second", "seconds"}}

// inWindow writes a window for a sentence: a minute, in 15 minutes, in 1.5s.
func inWindow(d time.Duration) string {
	for _, u := range units {
		if d == u.length {
			return u.one
		} else if d%u.length == 0 && u.more != "" {
			return fmt.Sprintf(" in %d %s", d/u.length, u.more)
		}
	}
	return " in " + windowText(d)
}

// together writes limits for a sentence.
func together(limits []Limit) string {
	var texts []string
	for _, l := range limits {
		text := count(int(l.Limit.Requests)) + inWindow(l.Limit.Window)
		if l.Limit.Algorithm != (core.Limit{}).Algorithm {
			text += " (" + l.Limit.Algorithm.String() + ")"
		}
		if l.Route != "" {
			text += " for " + l.Route
		}
		texts = append(texts, text)
	}
	if last := len(texts) - 1; last > 0 {
		return strings.Join(texts[:last], ", ") + " and " + texts[last] + " together"
	}
	return texts[0]
}

// sentence is the answer.
func sentence(limit string, refused, requests, clients, of int) string {
	whose := fmt.Sprintf(", of %s of %s clients", count(clients), count(of))
	if clients < 2 {
		whose = strings.Repeat(", all of one client", clients)
	}
	return fmt.Sprintf("%s would have refused %s of %s requests%s.",
		limit, strings.Replace(count(refused), "0", "none", 1-min(refused, 1)), count(requests), whose)
}

//go:embed report.txt
var reportText string

var text = texttemplate.Must(texttemplate.New("text").Funcs(texttemplate.FuncMap{
	"n": count, "several": several, "percent": percent,
	"time": func(t time.Time) string { return t.Format("2006-01-02 15:04:05") },
}).Parse(reportText))

// WriteText writes the report for people. It has no control character of the log.
func (r *Report) WriteText(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	return errors.Join(text.Execute(t, r), t.Flush())
}

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Parse(pageText))

// A page has the limits of this grid, times powers of ten, and the report's. What an algorithm decides for the
// grid of a window takes at most so many decisions: smaller limits are left out.
var grid = []float64{1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8}

const pageDecisions = 20_000_000

// pageWindow is a window on the page: the clients by the requests in their busiest window, as pairs of requests and
// clients, and what limits would have done: the limit, then requests and clients that each algorithm refuses.
type pageWindow struct {
	Window, Words string
	Busiest       [][2]int
	Grid          [][]int
	Begin         int // in Grid, where the slider stands at first
}

// WriteHTML writes a page that shows the clients, and what each of a grid of limits would have done to them. It asks
// for nothing outside of itself. It decides all requests again for each limit, so it takes longer than the report.
func (r *Report) WriteHTML(w io.Writer) error {
	data := struct {
		*Report
		Shown      []pageWindow
		Algorithms []string
		Window     int // that is shown at first
	}{Report: r, Window: len(r.Windows) / 2}
	for _, a := range core.Algorithms() {
		data.Algorithms = append(data.Algorithms, a.String())
	}
	for i, window := range r.Windows {
		first := window.Quantiles["p99"]
		shown := pageWindow{Window: window.Window, Words: inWindow(window.length)}
		var numbers []int
		for _, s := range window.Smallest {
			numbers = append(numbers, s.Requests)
		}
		for _, l := range r.Limits {
			if l.Route == "" && l.Limit.Window == window.length {
				first, data.Window = int(l.Limit.Requests), i
				numbers = append(numbers, first)
			}
		}
		for k, n := 0, 0.0; n < float64(window.Max); k++ {
			if n = grid[k%len(grid)] * math.Pow10(k/len(grid)); n == math.Trunc(n) {
				numbers = append(numbers, int(n))
			}
		}
		for _, n := range slices.Backward(slices.Sorted(slices.Values(r.most[i]))) {
			if last := len(shown.Busiest) - 1; last >= 0 && shown.Busiest[last][0] == int(n) {
				shown.Busiest[last][1]++
			} else {
				shown.Busiest = append(shown.Busiest, [2]int{int(n), 1})
			}
		}
		left := pageDecisions
		slices.Sort(numbers)
		numbers = slices.DeleteFunc(slices.Compact(numbers), func(n int) bool { return n > core.MaxLogRequests })
		for _, n := range slices.Backward(numbers) {
			row := []int{n}
			for _, a := range core.Algorithms() {
				limit := core.Per(int64(n), window.length).Using(a)
				requests, clients, decided, err := r.try(limit, r.most[i], n/2) // see mayBeRefused
				if err != nil {
					return err
				}
				row, left = append(row, requests, clients), left-decided
			}
			shown.Grid = slices.Insert(shown.Grid, 0, row)
			if n >= first {
				shown.Begin = len(shown.Grid)
			}
			if left < 0 {
				break
			}
		}
		shown.Begin = len(shown.Grid) - max(1, shown.Begin)
		data.Shown = append(data.Shown, shown)
	}
	return page.Execute(w, data)
}

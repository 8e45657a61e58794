package replay

import (
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	texttemplate "text/template"
	"time"

	"github.com/sashlimit/sash/core"
)

// stamp returns the time of one of requests, in UTC.
func stamp(at uint64) time.Time { return time.UnixMicro(int64(at >> 8)).UTC() }

// count writes an integer with commas: 12,908.
func count(n any) string {
	digits := fmt.Sprint(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// plural writes a number of things.
func plural(n int, unit string) string {
	if n != 1 {
		unit += "s"
	}
	return count(n) + " " + unit
}

// percent writes a share of requests.
func percent(n, of int) string { return fmt.Sprintf("%.3g %%", 100*float64(n)/float64(of)) }

// windowText writes a window as limits do: 1m, 15m, 24h.
func windowText(d time.Duration) string {
	_, text, _ := strings.Cut(core.Per(1, d).String(), "/")
	return text
}

// units are the units of windows.
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

// joinLimits writes limits for a sentence.
func joinLimits(limits []Limit) string {
	var texts []string
	for _, l := range limits {
		text := count(l.Limit.Requests) + inWindow(l.Limit.Window)
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

// sentence returns the answer.
func sentence(limit string, refused, requests, clients, of int) string {
	share := fmt.Sprintf(", of %s of %s", count(clients), plural(of, "client"))
	if clients < 2 {
		share = strings.Repeat(", all of one client", clients)
	}
	return fmt.Sprintf("%s would have refused %s of %s%s.",
		limit, strings.Replace(count(refused), "0", "none", 1-min(refused, 1)), plural(requests, "request"), share)
}

//go:embed report.txt
var reportText string

var text = texttemplate.Must(texttemplate.New("text").Funcs(texttemplate.FuncMap{
	"n": count, "middle": func(w []Window) Window { return w[len(w)/2] }, "plural": plural, "percent": percent,
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

// The tried numbers are a tenth of smallSteps times powers of ten, or of coarseSteps if there are many requests.
var smallSteps, coarseSteps = []int{10, 12, 15, 20, 25, 30, 40, 50, 60, 80}, []int{10, 20, 50}

const manyRequests = 500_000

// upTo returns the numbers by the given steps up to the first that is at least n.
func upTo(n int, smallSteps []int) (numbers []int) {
	for i, power := 0, 1; len(numbers) == 0 || numbers[len(numbers)-1] < n; i++ {
		if i == len(smallSteps) {
			i, power = 0, 10*power
		}
		if smallSteps[i]*power%10 == 0 {
			numbers = append(numbers, smallSteps[i]*power/10)
		}
	}
	return numbers
}

// pageWindow is a window on the page. Peak has pairs: the requests in the busiest window, and the number of such
// clients. Rows has a row by limit: its number, then the requests and clients that each algorithm refuses.
type pageWindow struct {
	Window, Words string
	Peak          [][2]int
	Rows          [][]int
	Top           [][]int // by limit, the refusals of each of the heaviest clients
	Begin         int     // index in Rows of the slider's first position

	algorithm core.Algorithm // algorithm of Top
}

// WriteHTML writes a page with the clients and the effects of a grid of limits. The page loads nothing. WriteHTML
// decides all requests again for each limit, so it takes longer than the report.
func (r *Report) WriteHTML(w io.Writer) error {
	data := struct {
		*Report
		Visible        []pageWindow
		Algorithms     []string
		Window, MaxLog int // Window is the first to show
	}{Report: r, Window: len(r.Windows) / 2, MaxLog: core.MaxLogRequests}
	for _, a := range core.Algorithms() {
		data.Algorithms = append(data.Algorithms, a.String())
	}
	tried, all := 0, 0
	for i := range r.Windows {
		result, given := r.pageWindow(i)
		if given {
			data.Window = i
		}
		data.Visible, all = append(data.Visible, result), all+len(result.Rows)
	}
	for i := range data.Visible {
		for k := range data.Visible[i].Rows {
			if err := r.tryRow(i, k, &data.Visible[i]); err != nil {
				return err
			}
			if tried++; r.progress != nil {
				r.progress(tried, all)
			}
		}
	}
	return page.Execute(w, data)
}

// pageWindow returns a window with untried limits, and reports whether one of them is a given limit for all requests.
func (r *Report) pageWindow(i int) (result pageWindow, given bool) {
	w := r.Windows[i]
	result = pageWindow{Window: w.Window, Words: inWindow(w.length), algorithm: w.Set.Algorithm}
	first, steps := int(w.Set.Requests), smallSteps
	if r.Requests > manyRequests {
		steps = coarseSteps
	}
	numbers := append(upTo(w.Max, steps), first, int(w.Tighter.Limit.Requests))
	for _, l := range r.Limits {
		if l.Route == "" && l.Limit.Window == w.length {
			first, given, result.algorithm = int(l.Limit.Requests), true, l.Limit.Algorithm
			numbers = append(numbers, first)
		}
	}
	slices.Sort(numbers)
	numbers = slices.Compact(numbers)
	result.Begin = slices.Index(numbers, first)
	for _, n := range numbers {
		result.Rows = append(result.Rows, []int{n})
	}
	for _, n := range slices.Backward(slices.Sorted(slices.Values(r.most[i]))) {
		if last := len(result.Peak) - 1; last >= 0 && result.Peak[last][0] == int(n) {
			result.Peak[last][1]++
		} else {
			result.Peak = append(result.Peak, [2]int{int(n), 1})
		}
	}
	return result, given
}

// tryRow tries the limit of a row of a window by each algorithm.
func (r *Report) tryRow(i, k int, result *pageWindow) error {
	row, heavy := &result.Rows[k], make([]int, len(r.Top))
	for n, a := range core.Algorithms() {
		limit := r.Windows[i].limit((*row)[0])
		if n > 0 {
			limit = limit.Using(a)
		}
		requests, clients, err := r.try(limit, i, func(client, n int) {
			at := slices.IndexFunc(r.Top, func(c Client) bool { return c.id == client })
			if at >= 0 && limit.Algorithm == result.algorithm {
				heavy[at] = n
			}
		})
		if err != nil {
			return err
		}
		*row = append(*row, requests, clients)
	}
	result.Top = append(result.Top, heavy)
	return nil
}

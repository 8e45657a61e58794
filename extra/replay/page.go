package replay

import (
	_ "embed"
	"html/template"
	"io"
	"math"
	"slices"

	"github.com/sashlimit/sash/core"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Parse(pageText))

// A page has the limits of this grid, times powers of ten, and those of the report. What an algorithm decides for the
// grid of a window takes at most so many decisions: smaller limits are left out.
var (
	grid           = []float64{1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8}
	pageDecisions  = 20_000_000
	pageAlgorithms = core.Algorithms()
)

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
	for _, a := range pageAlgorithms {
		data.Algorithms = append(data.Algorithms, a.String())
	}
	for i, window := range r.Windows {
		shown, first := pageWindow{Window: window.Window, Words: inWords(core.Per(1, window.length))[1:]}, window.Quantiles["p99"]
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
		sorted := slices.Sorted(slices.Values(r.most[i]))
		for _, n := range slices.Backward(sorted) {
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
			row, decisions := []int{n}, 0
			for _, a := range pageAlgorithms {
				t, err := r.q.try(core.Per(int64(n), window.length).Using(a), r.names, r.most[i], n/2) // see mayBeRefused
				if err != nil {
					return err
				}
				row, decisions = append(row, t.requests, t.clients), decisions+t.decided
			}
			shown.Grid = slices.Insert(shown.Grid, 0, row)
			if n >= first {
				shown.Begin = len(shown.Grid)
			}
			if left -= decisions; left < 0 {
				break
			}
		}
		shown.Begin = len(shown.Grid) - shown.Begin
		data.Shown = append(data.Shown, shown)
	}
	return page.Execute(w, data)
}

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
		shown := pageWindow{Window: window.Window, Words: inWords(core.Per(1, window.length))[1:]}
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
				requests, clients, decided, err := r.q.try(limit, r.names, r.most[i], n/2) // see mayBeRefused
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
		shown.Begin = len(shown.Grid) - shown.Begin
		data.Shown = append(data.Shown, shown)
	}
	return page.Execute(w, data)
}

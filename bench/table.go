package bench

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/perf/benchmath"
)

// Row is a line of the table.
type Row struct {
	What, Name string

	Values []float64 // one a round, in Unit, or a single one
	Unit   string

	Bytes, Allocs *float64 // of the contestant's process, per operation; nil if not measured

	// Ratios to the baseline, one a round: how many times as fast, or, where
	// LowerIsBetter, which share of its cost.
	Ratios        []float64
	LowerIsBetter bool

	Goal Goal
	Note string
}

// Goal holds the targets of a row in the table. A nil field is no goal.
type Goal struct {
	Ratio  *float64 // of the median of Ratios: at least, or at most if LowerIsBetter
	Value  *float64 // of the median of Values: at most
	Allocs *float64 // at most
}

// Met returns a verdict for each goal, such as ">= 1 met", and reports whether all
// goals are met.
func (r Row) Met() (verdicts []string, met bool) {
	met = true
	judge := func(what string, goal *float64, value float64, least bool) {
		if goal == nil {
			return
		}
		sign, ok := "<=", value <= *goal
		if least {
			sign, ok = ">=", value >= *goal
		}
		verdict := "met"
		if !ok {
			verdict, met = "MISSED", false
		}
		verdicts = append(verdicts, fmt.Sprintf("%s%s %s %s", what, sign, number(*goal), verdict))
	}
	if len(r.Ratios) > 0 {
		judge("", r.Goal.Ratio, median(r.Ratios), !r.LowerIsBetter)
	}
	judge("", r.Goal.Value, median(r.Values), false)
	if r.Allocs != nil {
		judge("allocs ", r.Goal.Allocs, math.Round(*r.Allocs*100)/100, false)
	}
	return verdicts, met
}

// summary returns the median of values and its confidence interval, as benchstat
// computes them.
func summary(values []float64) benchmath.Summary {
	sample := benchmath.NewSample(slices.Clone(values), &benchmath.DefaultThresholds)
	return benchmath.AssumeNothing.Summary(sample, 0.95)
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	return summary(values).Center
}

func ratios(of, to []float64) []float64 {
	r := make([]float64, min(len(of), len(to)))
	for i := range r {
		r[i] = of[i] / to[i]
	}
	return r
}

func column(samples []sample, of func(sample) float64) []float64 {
	c := make([]float64, len(samples))
	for i, s := range samples {
		c[i] = of(s)
	}
	return c
}

// WriteTable writes rows as one Markdown table, and below it the goals that are
// missed.
func WriteTable(w io.Writer, rows []Row) error {
	lines := [][]string{{"what", "who", "median", "95 % CI", "B/op", "allocs", "ratio", "min..max", "target", "note"}}
	previous := ""
	var missed []string
	for _, r := range rows {
		s := summary(r.Values)
		line := []string{r.What, r.Name, number(s.Center) + " " + r.Unit, spread(s), "", "", "", "", "", r.Note}
		if r.What == previous {
			line[0] = ""
		}
		previous = r.What
		if r.Bytes != nil {
			line[4] = number(math.Round(*r.Bytes))
		}
		if r.Allocs != nil {
			line[5] = number(math.Round(*r.Allocs*100) / 100)
		}
		if len(r.Ratios) > 0 {
			line[6] = number(median(r.Ratios))
			line[7] = number(slices.Min(r.Ratios)) + ".." + number(slices.Max(r.Ratios))
		}
		verdicts, met := r.Met()
		line[8] = strings.Join(verdicts, ", ")
		if !met {
			missed = append(missed, r.What+": "+r.Name+": "+line[8])
		}
		lines = append(lines, line)
	}
	if err := writeMarkdown(w, lines); err != nil {
		return err
	}
	text := "\nEvery target is met.\n"
	if len(missed) > 0 {
		text = fmt.Sprintf("\n%d targets are missed:\n- %s\n", len(missed), strings.Join(missed, "\n- "))
	}
	_, err := io.WriteString(w, text)
	return err
}

func writeMarkdown(w io.Writer, lines [][]string) error {
	widths := make([]int, len(lines[0]))
	for _, line := range lines {
		for i, cell := range line {
			widths[i] = max(widths[i], len(cell))
		}
	}
	lines = slices.Insert(lines, 1, nil)
	for _, width := range widths {
		lines[1] = append(lines[1], strings.Repeat("-", width))
	}
	var b strings.Builder
	for _, line := range lines {
		for i, cell := range line {
			fmt.Fprintf(&b, "| %-*s ", widths[i], cell)
		}
		b.WriteString("|\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// number writes three significant digits, and integers whole.
func number(f float64) string {
	switch a := math.Abs(f); {
	case math.IsNaN(f) || math.IsInf(f, 0):
		return "-"
	case a >= 100 || f == math.Trunc(f):
		return strconv.FormatFloat(f, 'f', 0, 64)
	case a >= 10:
		return strconv.FormatFloat(f, 'f', 1, 64)
	}
	return strconv.FormatFloat(f, 'f', 2, 64)
}

// spread is the confidence interval in percent of the median.
func spread(s benchmath.Summary) string {
	if s.Center == 0 || math.IsInf(s.Lo, 0) || math.IsInf(s.Hi, 0) || s.Lo == s.Hi {
		return ""
	}
	return fmt.Sprintf("-%.0f +%.0f %%", 100*(s.Center-s.Lo)/s.Center, 100*(s.Hi-s.Center)/s.Center)
}

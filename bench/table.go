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
	What, Name    string
	Values        []float64 // one a round, in Unit, or a single one
	Unit          string
	Bytes, Allocs *float64  // of the contestant's process, per operation; nil if not measured
	Ratios        []float64 // one a round: how many times as fast as the baseline
	Goal          Goal
	Note          string
}

// Goal holds the targets of a row in the table. A nil field is no goal.
type Goal struct {
	Ratio  *float64 // of the median of Ratios: at least
	Allocs *float64 // at most
}

// verdicts returns a verdict for each goal, such as ">= 1 met", and reports whether one is missed.
func (r Row) verdicts() (text string, missed bool) {
	var all []string
	judge := func(goal string, met bool) {
		all = append(all, goal+map[bool]string{true: " met", false: " MISSED"}[met])
		missed = missed || !met
	}
	if g := r.Goal.Ratio; g != nil && len(r.Ratios) > 0 {
		judge(">= "+number(*g), median(r.Ratios) >= *g)
	}
	if g := r.Goal.Allocs; g != nil && r.Allocs != nil {
		judge("allocs <= "+number(*g), math.Round(*r.Allocs*100) <= *g*100)
	}
	return strings.Join(all, ", "), missed
}

// summary returns the median of values and its confidence interval, as benchstat computes them.
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

func column[S any](samples []S, of func(S) float64) []float64 {
	c := make([]float64, len(samples))
	for i, s := range samples {
		c[i] = of(s)
	}
	return c
}

// WriteTable writes rows as one Markdown table, and below it the goals that are missed.
func WriteTable(w io.Writer, rows []Row) error {
	lines := [][]string{{"what", "who", "median", "95 % CI", "B/op", "allocs", "ratio", "min..max", "target", "note"}}
	previous, missed := "", "\nEvery target is met.\n"
	for _, r := range rows {
		s := summary(r.Values)
		line := []string{r.What, r.Name, number(s.Center) + " " + r.Unit, spread(s), "", "", "", "", "", r.Note}
		if r.What == previous {
			line[0] = ""
		}
		previous = r.What
		if r.Bytes != nil {
			line[4], line[5] = number(math.Round(*r.Bytes)), number(math.Round(*r.Allocs*100)/100)
		}
		if len(r.Ratios) > 0 {
			line[6], line[7] = number(median(r.Ratios)), span(r.Ratios)
		}
		verdicts, bad := r.verdicts()
		if line[8] = verdicts; bad {
			missed = strings.TrimPrefix(missed, "\nEvery target is met.\n") +
				"\nMissed: " + r.What + ": " + r.Name + ": " + verdicts
		}
		lines = append(lines, line)
	}
	if err := writeMarkdown(w, lines); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, missed)
	return err
}

func writeMarkdown(w io.Writer, lines [][]string) error {
	rule := make([]string, len(lines[0]))
	for i := range rule {
		width := 0
		for _, line := range lines {
			width = max(width, len(line[i]))
		}
		rule[i] = strings.Repeat("-", width)
	}
	var b strings.Builder
	for _, line := range slices.Insert(lines, 1, rule) {
		for i, cell := range line {
			fmt.Fprintf(&b, "| %-*s ", len(rule[i]), cell)
		}
		b.WriteString("|\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// number writes three significant digits, and integers whole.
func number(f float64) string {
	digits := 2
	switch a := math.Abs(f); {
	case math.IsNaN(f) || math.IsInf(f, 0):
		return "-"
	case a >= 100 || f == math.Trunc(f):
		digits = 0
	case a >= 10:
		digits = 1
	}
	return strconv.FormatFloat(f, 'f', digits, 64)
}

// spread is the confidence interval in percent of the median.
func spread(s benchmath.Summary) string {
	if s.Center == 0 || math.IsInf(s.Lo, 0) || math.IsInf(s.Hi, 0) || s.Lo == s.Hi {
		return ""
	}
	return fmt.Sprintf("-%.0f +%.0f %%", 100*(s.Center-s.Lo)/s.Center, 100*(s.Hi-s.Center)/s.Center)
}

// span returns the least and the greatest of values.
func span(values []float64) string {
	return number(slices.Min(values)) + ".." + number(slices.Max(values))
}

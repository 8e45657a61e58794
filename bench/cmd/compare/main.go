// Command compare measures sash side by side with other rate limiters and prints one table. Run it in the directory
// bench:
//
//	go run ./cmd/compare                          # everything
//	go run ./cmd/compare -parts web,redis -rounds 5
//
// It starts the redis-server processes that it needs. See README.md for how to read the table.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/sashlimit/sash/bench"
)

func main() {
	bench.RunWorker()
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

// run measures the parts that the flags name and prints the table, also what is there of it when a part fails.
func run() error {
	start := time.Now()
	c := bench.Config{Progress: func(what string) {
		fmt.Fprintf(os.Stderr, "%4.0f s  %s\n", time.Since(start).Seconds(), what)
	}}
	parts, err := parse(&c)
	if err != nil {
		return err
	}
	var rows []bench.Row
	for _, p := range parts {
		more, failed := p.Run(c)
		rows = append(rows, more...)
		if err = failed; err != nil {
			err = fmt.Errorf("%s: %w", p.Name, err)
			break
		}
	}
	fmt.Printf("%s %s/%s, %d CPUs, %d rounds of %v, %.0f s in all\n\n", runtime.Version(), runtime.GOOS, runtime.GOARCH,
		runtime.NumCPU(), c.Rounds, c.Slice, time.Since(start).Seconds())
	return errors.Join(err, bench.WriteTable(os.Stdout, rows))
}

// parse reads the flags. It returns the wanted parts in the order of the table.
func parse(c *bench.Config) (parts []bench.Part, err error) {
	var names, about []string
	for _, p := range bench.Parts() {
		names = append(names, p.Name)
		about = append(about, fmt.Sprintf("  %-8s %s", p.Name, p.About))
	}
	list := flag.String("parts", strings.Join(names, ","), "what to measure:\n"+strings.Join(about, "\n")+"\n")
	flag.IntVar(&c.Rounds, "rounds", 11,
		"rounds in which all contestants take turns; 6 or more give a confidence interval")
	flag.DurationVar(&c.Slice, "slice", 100*time.Millisecond, "how long a contestant works in each round")
	flag.Parse()
	if flag.NArg() > 0 || c.Rounds < 1 || c.Slice <= 0 {
		return nil, fmt.Errorf("arguments %q, -rounds %d, -slice %v: the numbers must be positive, and there are no "+
			"other arguments", flag.Args(), c.Rounds, c.Slice)
	}
	wanted := strings.Split(*list, ",")
	for _, w := range wanted {
		if !slices.Contains(names, w) {
			return nil, fmt.Errorf("-parts: there is no part %q: give some of %s", w, strings.Join(names, ","))
		}
	}
	for _, p := range bench.Parts() {
		if slices.Contains(wanted, p.Name) {
			parts, err = append(parts, p), errors.Join(err, p.Check())
		}
	}
	return parts, err
}

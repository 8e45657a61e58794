// Command compare measures sash side by side with other rate limiters and prints
// one table. Run it in the directory bench:
//
//	go run ./cmd/compare                          # everything
//	go run ./cmd/compare -parts web,scripts -rounds 5
//
// It starts the redis-server processes that it needs. See README.md for how to
// read the table.
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

// run measures the parts that the flags name and prints the table. If a part fails,
// run prints the rows of the parts before it, and returns the error.
func run() error {
	parts, c, err := parse()
	if err != nil {
		return err
	}
	for _, p := range parts {
		if err := p.Check(c); err != nil {
			return err
		}
	}

	start := time.Now()
	c.Progress = func(what string) {
		fmt.Fprintf(os.Stderr, "%4.0f s  %s\n", time.Since(start).Seconds(), what)
	}
	var rows []bench.Row
	var failed error
	for _, p := range parts {
		more, err := p.Run(c)
		if err != nil {
			failed = err
			break
		}
		rows = append(rows, more...)
	}
	if len(rows) == 0 {
		return failed
	}
	fmt.Printf("%s %s/%s, %d CPUs, %d rounds of %v, %.0f s in all\n\n",
		runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(),
		c.Rounds, c.Slice, time.Since(start).Seconds())
	return errors.Join(failed, bench.WriteTable(os.Stdout, rows))
}

// parse reads the flags. It returns the wanted parts in the order of the table.
func parse() (parts []bench.Part, c bench.Config, err error) {
	var names, about []string
	for _, p := range bench.Parts() {
		names = append(names, p.Name)
		about = append(about, fmt.Sprintf("  %-11s %s", p.Name, p.About))
	}
	list := flag.String("parts", strings.Join(names, ","), "what to measure:\n"+strings.Join(about, "\n")+"\n")
	flag.IntVar(&c.Rounds, "rounds", 11,
		"rounds in which all contestants take turns; 6 or more give a confidence interval")
	flag.DurationVar(&c.Slice, "slice", 100*time.Millisecond, "how long a contestant works in each round")
	flag.IntVar(&c.Keys, "keys", 1_000_000, "keys of the memory measurement")
	flag.Parse()
	if flag.NArg() > 0 || c.Rounds < 1 || c.Slice <= 0 || c.Keys < 1 {
		flag.Usage()
		return nil, c, fmt.Errorf("arguments %q, -rounds %d, -slice %v, -keys %d: "+
			"the numbers must be positive, and there are no other arguments",
			flag.Args(), c.Rounds, c.Slice, c.Keys)
	}
	wanted := strings.Split(*list, ",")
	for _, w := range wanted {
		if !slices.Contains(names, w) {
			return nil, c, fmt.Errorf("-parts: there is no part %q: give some of %s", w, strings.Join(names, ","))
		}
	}
	for _, p := range bench.Parts() {
		if slices.Contains(wanted, p.Name) {
			parts = append(parts, p)
		}
	}
	return parts, c, nil
}

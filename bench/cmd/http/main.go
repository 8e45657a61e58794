// Command http measures HTTP servers with and without rate limiters by wrk, and
// prints one table. Run it in the directory bench:
//
//	go run ./cmd/http                                     # everything, about four minutes
//	go run ./cmd/http -rounds 1 -slice 1s -connections 64 # a short look
//
// It starts the servers, one redis-server and wrk. See README.md for how to read
// the table.
package main

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/sashlimit/sash/bench"
)

func main() {
	bench.RunWorker()
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "http:", err)
		os.Exit(1)
	}
}

// run measures as the flags say, and prints the table.
func run() error {
	c, err := parse()
	if err != nil {
		return err
	}
	if err := c.Check(); err != nil {
		return err
	}
	start := time.Now()
	c.Progress = func(what string) {
		fmt.Fprintf(os.Stderr, "%4.0f s  %s\n", time.Since(start).Seconds(), what)
	}
	return bench.RunHTTP(os.Stdout, c)
}

// parse reads the flags.
func parse() (c bench.HTTPConfig, err error) {
	flag.IntVar(&c.Rounds, "rounds", 7, "rounds in which all servers take turns")
	flag.DurationVar(&c.Slice, "slice", 2*time.Second, "how long wrk drives a server in each round, in whole seconds")
	connections := flag.String("connections", "1,64", "numbers of connections, each measured by itself")
	flag.Parse()
	if flag.NArg() > 0 {
		return c, fmt.Errorf("arguments %q: there are only flags", flag.Args())
	}
	for text := range strings.SplitSeq(*connections, ",") {
		n, err := strconv.Atoi(text)
		if err != nil {
			return c, fmt.Errorf("-connections: %q is no number: give some, such as 1,64", text)
		}
		c.Connections = append(c.Connections, n)
	}
	return c, nil
}

// Command checklog reads the decision logs of example servers and checks them
// together against the limit of /api/data: 100 requests in any minute for each
// client.
//
//	checklog FILE...
//
// It prints how many requests of each client were admitted in each minute. It
// exits with 1 if any window held more than the limit, if a client was refused
// while there was room, if a decision was not counted, or if there is no decision.
package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/storetest"
	"github.com/sashlimit/sash/examples/internal/decisionlog"
)

// outcomes are the decisions of all logs about /api/data.
type outcomes struct {
	byKey     map[string][]storetest.Outcome
	uncounted int // decisions that the store did not make
}

func main() {
	all, err := read(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	ok := all.uncounted == 0
	for _, key := range slices.Sorted(maps.Keys(all.byKey)) {
		verdict := "exact"
		if err := storetest.CheckLogs(all.byKey[key], core.PerMinute(100)); err != nil {
			verdict, ok = "WRONG: "+err.Error(), false
		}
		fmt.Printf("%-46s %8d decisions, admitted per minute: %s: %s\n",
			key, len(all.byKey[key]), perMinute(all.byKey[key]), verdict)
	}
	fmt.Printf("%d clients, %d decisions not counted\n", len(all.byKey), all.uncounted)
	if !ok || len(all.byKey) == 0 {
		os.Exit(1)
	}
}

// read returns the decisions in the logs at paths. Decisions of other rules, which
// have a name, are left out.
func read(paths []string) (outcomes, error) {
	all := outcomes{byKey: map[string][]storetest.Outcome{}}
	for _, path := range paths {
		err := decisionlog.Read(path, func(l decisionlog.Line) {
			switch {
			case l.Rule != "", l.Error == context.Canceled.Error(): // or the caller has left, as wrk does at its end
			case l.Error != "":
				all.uncounted++
				fmt.Println("not counted:", l.Error)
			default:
				outcome := storetest.Outcome{At: l.Time(), Allowed: l.Allowed, Cost: l.Cost}
				all.byKey[l.Key] = append(all.byKey[l.Key], outcome)
			}
		})
		if err != nil {
			return outcomes{}, err
		}
	}
	return all, nil
}

// perMinute returns the number of admitted requests of one client for each minute,
// such as "15:04 100, 15:05 87".
func perMinute(decisions []storetest.Outcome) string {
	admitted := map[time.Time]int{}
	for _, d := range decisions {
		if d.Allowed {
			admitted[d.At.UTC().Truncate(time.Minute)]++
		}
	}
	var minutes []string
	for _, m := range slices.SortedFunc(maps.Keys(admitted), time.Time.Compare) {
		minutes = append(minutes, fmt.Sprintf("%s %d", m.Format("15:04"), admitted[m]))
	}
	return strings.Join(minutes, ", ")
}

// Command checklog reads the decision logs of example servers and holds them,
// together, against the limit of /api/data: 100 in any minute for each client.
//
//	checklog FILE...
//
// It prints what each client was admitted in each minute, and exits with 1 if
// any window held more than the limit, or anybody was refused while there was
// room, or a decision was not counted.
package main

import (
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

func main() {
	limit := core.PerMinute(100)
	clients := map[string][]storetest.Outcome{}
	uncounted := 0
	for _, path := range os.Args[1:] {
		err := decisionlog.Read(path, func(l decisionlog.Line) {
			switch {
			case l.Rule != "":
			case l.Error != "":
				uncounted++
			default:
				clients[l.Key] = append(clients[l.Key], storetest.Outcome{At: l.Time(), Allowed: l.Allowed, Cost: l.Cost})
			}
		})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	ok := uncounted == 0
	for _, key := range slices.Sorted(maps.Keys(clients)) {
		outcomes := clients[key]
		admitted := map[time.Time]int{}
		for _, o := range outcomes {
			if o.Allowed {
				admitted[o.At.UTC().Truncate(time.Minute)]++
			}
		}
		var minutes []string
		for _, m := range slices.SortedFunc(maps.Keys(admitted), time.Time.Compare) {
			minutes = append(minutes, fmt.Sprintf("%s %d", m.Format("15:04"), admitted[m]))
		}
		verdict := "exact"
		if err := storetest.CheckLogs(outcomes, limit); err != nil {
			verdict, ok = "WRONG: "+err.Error(), false
		}
		fmt.Printf("%-46s %8d decisions, admitted per minute: %s: %s\n", key, len(outcomes), strings.Join(minutes, ", "), verdict)
	}
	fmt.Printf("%d clients, %d decisions not counted\n", len(clients), uncounted)
	if !ok || len(clients) == 0 {
		os.Exit(1)
	}
}

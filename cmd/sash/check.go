package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/metrics"
	"strings"
	"time"

	"github.com/sashlimit/sash/core"
)

// maxMemory exceeds the need of every command. go-redis allocates any length that a reply announces.
const maxMemory = 512 << 20

// watchMemory ends the program when the replies of a server take too much memory.
func watchMemory() {
	sample := []metrics.Sample{{Name: "/memory/classes/total:bytes"}}
	for range time.Tick(20 * time.Millisecond) {
		if metrics.Read(sample); sample[0].Value.Uint64() > maxMemory {
			fmt.Fprintln(os.Stderr, "sash: the replies take more than 512 MiB of memory, as those of no Redis do: "+
				"is the address right? If so, the server may have been taken over")
			os.Exit(exitFailure)
		}
	}
}

// checkResult is the result of check in JSON.
type checkResult struct {
	OK       bool     `json:"ok"`
	Problems []string `json:"findings"`
}

// check checks whether a Redis is fit for counting. Its error has the findings.
func check(ctx context.Context, args []string, sys system) error {
	s := newSettings()
	timeout := s.Duration("config-timeout", 100*time.Millisecond, "")
	thoroughFlag := s.Bool("thorough", false, "")
	store, err := s.open(args, sys)
	if err != nil {
		return err
	}
	defer store.Close()
	if *thoroughFlag {
		return runChecks(ctx, s, sys, *timeout)
	}
	// Check compares the time of a round trip with the timeouts of the limiters on the store.
	s.limits = []core.Limit{core.PerMinute(1)}
	if _, err := s.limiter(store, *timeout); err != nil {
		return err
	}
	found := store.Check(ctx)
	switch {
	case s.json:
		result := checkResult{OK: found == nil, Problems: []string{}}
		if found != nil {
			result.Problems = strings.Split(withoutPassword(found.Error()), "\n")
		}
		return errors.Join(writeJSON(sys, result), found)
	case found == nil:
		return write(sys.stdout, "ok: the Redis is fit for counting\n")
	}
	return found
}

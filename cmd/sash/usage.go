package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore"
	"github.com/sashlimit/sash/internal/report"
)

// answer is the result of usage and reset.
type answer struct {
	Client string `json:"client"`
	Reset  bool   `json:"reset,omitempty"` // the numbers precede the reset
	report.Usage
}

// clientCommand writes a client's usage of the limits of a rule. With resets it then resets the client.
func clientCommand(ctx context.Context, args []string, sys system, resets bool) error {
	s := newSettings()
	s.defineClient()
	store, err := s.open(args, sys)
	if err != nil {
		return err
	}
	defer store.Close()
	limiter, err := s.limiter(store, s.timeout)
	if err != nil {
		return err
	}
	key, err := s.client(sys.stdin)
	if err != nil {
		return err
	}
	uses, err := limiter.Usage(ctx, key)
	if resets && (err == nil || errors.Is(err, redisstore.ErrCorrupt)) { // a reset deletes what is not the store's
		err = limiter.Reset(ctx, key)
	}
	if err != nil {
		return explain(ctx, store, s.timeout, err)
	}
	result := answer{key, resets, report.NewUsage(limiter, uses)}
	if s.json {
		return writeJSON(sys, result)
	}
	return write(sys.stdout, result.table(limiter))
}

// writeJSON writes v as JSON.
func writeJSON(sys system, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("sash: the result could not be written: %w", err)
	}
	return write(sys.stdout, string(text)+"\n")
}

// emptyHint follows an empty usage, which may be due to a mistake in the flags.
const emptyHint = `
Nothing was counted. If that is a surprise: are the database and the prefix, the names of limiter and rule,
the windows, algorithms and names of the limits, and the client those of the program that counts?
`

// table returns the answer as text.
func (a *answer) table(limiter *core.Limiter) string {
	var b strings.Builder
	fmt.Fprintf(&b, "client %q, %v\n", a.Client, limiter)
	if a.Reset {
		fmt.Fprintln(&b, "Reset. Until now was counted:")
	}
	fmt.Fprintln(&b)
	w := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "LIMIT\tUSED\tREMAINING\tRESETS AFTER")
	for _, use := range a.Limits {
		resets := "-"
		if use.Used > 0 {
			resets = report.Wait(use.ResetAfter)
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\n", use.Limit.Limit, use.Used, use.Remaining, resets)
	}
	_ = w.Flush() // to a strings.Builder
	if !a.HasUsage() {
		b.WriteString(emptyHint)
	}
	return b.String()
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore"
	"github.com/sashlimit/sash/internal/report"
)

// answer is what usage and reset tell.
type answer struct {
	Client string `json:"client"`
	Reset  bool   `json:"reset,omitempty"` // the numbers are from before the reset
	report.Usage
}

// clientCommand runs usage or reset.
func clientCommand(
	ctx context.Context, args []string, sys system, do func(context.Context, *core.Limiter, string) (answer, error),
) error {
	flags := newSettings()
	var rule rule
	var client client
	rule.define(flags.FlagSet)
	client.define(flags.FlagSet)
	if helps, err := flags.parse(args, 0); err != nil {
		return err
	} else if helps {
		return write(sys.stdout, help)
	}
	store, err := flags.open(sys)
	if err != nil {
		return err
	}
	defer store.Close()
	limiter, err := rule.limiter(store, flags.timeout)
	if err != nil {
		return err
	}
	key, err := client.name(sys.stdin)
	if err != nil {
		return err
	}
	told, err := do(ctx, limiter, key)
	if err != nil {
		return explain(ctx, store, flags.timeout, err)
	}
	if flags.json {
		return writeJSON(sys, told)
	}
	return write(sys.stdout, told.table(limiter))
}

// usage tells what the client has used.
func usage(ctx context.Context, limiter *core.Limiter, key string) (answer, error) {
	uses, err := limiter.Usage(ctx, key)
	return answer{key, false, report.OfUses(limiter, uses)}, err
}

// reset forgets what is counted for the client, and tells what that was.
func reset(ctx context.Context, limiter *core.Limiter, key string) (answer, error) {
	told, err := usage(ctx, limiter, key)
	if err != nil && !errors.Is(err, redisstore.ErrForeign) { // a reset deletes a value that is not the store's
		return told, err
	}
	told.Reset = true
	return told, limiter.Reset(ctx, key)
}

// writeJSON writes v.
func writeJSON(sys system, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("sash: the result could not be written: %w", err)
	}
	return write(sys.stdout, string(text)+"\n")
}

// nothingCounted is said where a mistake in the flags would show in no other way.
const nothingCounted = `
Nothing %s counted. If that is a surprise: are the database and the prefix, the names of limiter and rule,
the windows, algorithms and names of the limits, and the client those of the program that counts?
`

// table returns what is told in words.
func (a *answer) table(limiter *core.Limiter) string {
	var b strings.Builder
	fmt.Fprintf(&b, "client %s, %v\n", printable(a.Client), limiter)
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
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\n", use.Text(), use.Used, use.Remaining, resets)
	}
	_ = w.Flush() // to a strings.Builder
	if !a.Counted() {
		verb := "is"
		if a.Reset {
			verb = "was"
		}
		fmt.Fprintf(&b, nothingCounted, verb)
	}
	return b.String()
}

// printable returns a key for a terminal: quoted as in Go if it has what cannot be printed.
func printable(key string) string {
	if quoted := strconv.Quote(key); quoted != `"`+key+`"` || strings.Contains(key, " ") {
		return quoted
	}
	return key
}

package main

import (
	"context"
	"errors"
	"strings"

	"github.com/sashlimit/sash/core"
)

// checked is what check tells in JSON.
type checked struct {
	OK       bool     `json:"ok"`
	Findings []string `json:"findings"`
}

// check tells whether a Redis is fit for counting. Its error has the findings.
func check(ctx context.Context, args []string, sys system) error {
	flags := newSettings()
	timeout := flags.Duration("config-timeout", core.DefaultTimeout, "")
	if helps, err := flags.parse(args, 1); err != nil {
		return err
	} else if helps {
		return write(sys.stdout, help)
	}
	if url := flags.Arg(0); url != "" {
		if flags.url != "" {
			return wrongUsage("check has a URL with -redis and another one behind the flags: give one of them")
		}
		flags.url = url
	}
	store, err := flags.open(sys)
	if err != nil {
		return err
	}
	defer store.Close()
	// Check compares the time of a round trip with the timeouts of the limiters on the store.
	rule := rule{limits: []core.Limit{core.PerMinute(1)}}
	if _, err := rule.limiter(store, *timeout); err != nil {
		return err
	}
	return tell(sys, flags.json, store.Check(ctx))
}

// tell writes what Check has found, and returns it as the error.
func tell(sys system, asJSON bool, found error) error {
	if !asJSON {
		if found != nil {
			return found
		}
		return write(sys.stdout, "ok: the Redis is fit for counting\n")
	}
	told := checked{OK: found == nil, Findings: []string{}}
	if found != nil {
		told.Findings = strings.Split(withoutPassword(found.Error()), "\n")
	}
	return errors.Join(writeJSON(sys, told), found)
}

// Package report names a client, and says in JSON what limits there are and what a client has
// used of them. The command sash and package sashadmin ask and answer alike by it.
package report

import (
	"time"

	"github.com/sashlimit/sash/core"
)

// Limit is a limit, in numbers and as core.ParseLimit reads it.
type Limit struct {
	Limit         core.Limit `json:"limit"` // as text, such as "5/15m"
	Name          string     `json:"name"`
	Requests      int64      `json:"requests"`
	WindowSeconds float64    `json:"window_seconds"`
	Algorithm     string     `json:"algorithm"` // as core.Algorithm says it
}

// Use holds the units that a client has used of a limit.
type Use struct {
	Limit
	Used              int64   `json:"used"`
	Remaining         int64   `json:"remaining"`
	ResetAfterSeconds float64 `json:"reset_after_seconds"` // 0 if nothing is counted

	ResetAfter time.Duration `json:"-"`
}

// Usage holds the units that a client has used of the limits of a rule.
type Usage struct {
	Limiter   string     `json:"limiter"`
	Rule      string     `json:"rule"`      // empty for the limiter itself
	Exhausted bool       `json:"exhausted"` // nothing remains of one of the limits
	At        *time.Time `json:"at,omitempty"`
	Limits    []Use      `json:"limits"`
}

// OfLimit describes a limit.
func OfLimit(l core.Limit) Limit {
	return Limit{
		Limit: l, Name: l.Name, Requests: l.Requests,
		WindowSeconds: l.Window.Seconds(), Algorithm: l.Algorithm.String(),
	}
}

// OfUses describes the uses that Limiter.Usage has returned, maybe none.
func OfUses(l *core.Limiter, uses []core.Usage) Usage {
	usage := Usage{Limiter: l.Name(), Rule: l.RuleName(), Limits: []Use{}}
	for _, u := range uses {
		usage.At = new(u.At.UTC())
		usage.Exhausted = usage.Exhausted || u.Remaining == 0
		usage.Limits = append(usage.Limits, Use{
			Limit: OfLimit(u.Limit), Used: u.Used, Remaining: u.Remaining,
			ResetAfterSeconds: u.ResetAfter.Seconds(), ResetAfter: u.ResetAfter,
		})
	}
	return usage
}

// Counted reports whether anything is counted under one of the limits.
func (u *Usage) Counted() bool {
	for _, use := range u.Limits {
		if use.Used > 0 {
			return true
		}
	}
	return false
}

// Wait returns a duration for people: in whole seconds, rounded up, if it is longer than a
// second.
func Wait(d time.Duration) string {
	if part := d % time.Second; part > 0 && d > time.Second {
		d += time.Second - part
	}
	return d.String()
}

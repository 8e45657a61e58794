// Package report parses the name of a client, and describes limits and their use in JSON. It is common to the command
// sash and package sashadmin.
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
	Algorithm     string     `json:"algorithm"` // name of the core.Algorithm
}

// Use holds the units that a client has used of a limit.
type Use struct {
	Limit
	Used              int64   `json:"used"`
	Remaining         int64   `json:"remaining"`
	ResetAfterSeconds float64 `json:"reset_after_seconds"` // 0 if no units are used

	ResetAfter time.Duration `json:"-"`
}

// Usage holds the units that a client has used of the limits of a rule.
type Usage struct {
	Limiter   string     `json:"limiter"`
	Rule      string     `json:"rule"`      // empty for the limiter itself
	Exhausted bool       `json:"exhausted"` // one of the limits has no units remaining
	At        *time.Time `json:"at,omitempty"`
	Limits    []Use      `json:"limits"`
}

// NewLimit describes a limit.
func NewLimit(l core.Limit) Limit {
	return Limit{
		Limit: l, Name: l.Name, Requests: l.Requests,
		WindowSeconds: l.Window.Seconds(), Algorithm: l.Algorithm.String(),
	}
}

// NewUsage describes the result of Limiter.Usage, which may be empty.
func NewUsage(l *core.Limiter, uses []core.Usage) Usage {
	usage := Usage{Limiter: l.Name(), Rule: l.RuleName(), Limits: []Use{}}
	for _, u := range uses {
		usage.At = new(u.At.UTC())
		usage.Exhausted = usage.Exhausted || u.Remaining == 0
		usage.Limits = append(usage.Limits, Use{
			Limit: NewLimit(u.Limit), Used: u.Used, Remaining: u.Remaining,
			ResetAfterSeconds: u.ResetAfter.Seconds(), ResetAfter: u.ResetAfter,
		})
	}
	return usage
}

// HasUsage reports whether units of any limit are used.
func (u *Usage) HasUsage() bool {
	for _, use := range u.Limits {
		if use.Used > 0 {
			return true
		}
	}
	return false
}

// Wait formats a duration for people. A duration above a second is rounded up to whole seconds.
func Wait(d time.Duration) string {
	if part := d % time.Second; part > 0 && d > time.Second {
		d += time.Second - part
	}
	return d.String()
}

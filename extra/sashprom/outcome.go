package sashprom

import (
	"errors"

	"github.com/sashlimit/sash/core"
)

// outcome is what became of a request.
type outcome uint8

const (
	admitted outcome = iota
	refused
	fallbackAdmitted
	fallbackRefused
	failedOpen
	failedClosed
	nameless
	invalid
	canceled
	skipped
	shadowAdmitted
	shadowRefused
	outcomes // how many there are
)

// outcomeLabels are the values of the labels outcome and allowed.
var outcomeLabels = [outcomes]struct{ outcome, allowed string }{
	admitted:         {"admitted", "true"},
	refused:          {"refused", "false"},
	fallbackAdmitted: {"fallback", "true"},
	fallbackRefused:  {"fallback", "false"},
	failedOpen:       {"failed_open", "true"},
	failedClosed:     {"failed_closed", "false"},
	nameless:         {"nameless", "false"},
	invalid:          {"invalid", "false"},
	canceled:         {"canceled", "false"},
	skipped:          {"skipped", "true"},
	shadowAdmitted:   {"shadow", "true"},
	shadowRefused:    {"shadow_refused", "true"},
}

// outcomeOf returns the outcome of an event.
func outcomeOf(e *core.Event) outcome {
	d := &e.Decision
	if e.Shadow && d.Source != core.Skipped {
		return either(d.Allowed, shadowAdmitted, shadowRefused)
	}
	switch d.Source {
	case core.FromFallback:
		return either(d.Allowed, fallbackAdmitted, fallbackRefused)
	case core.FromPolicy:
		return either(d.Allowed, failedOpen, failedClosed)
	case core.Skipped:
		return skipped
	case core.Unasked:
		return unasked(e)
	}
	return either(d.Allowed, admitted, refused)
}

// unasked returns the outcome of an event for which nothing was asked.
func unasked(e *core.Event) outcome {
	switch {
	case e.Key == "":
		return nameless
	case errors.Is(e.Decision.Err, core.ErrInvalid):
		return invalid
	}
	return canceled
}

func either(allowed bool, yes, no outcome) outcome {
	if allowed {
		return yes
	}
	return no
}

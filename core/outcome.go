package core

import (
	"context"
	"errors"
)

// Outcome is the result of the request of an [Event].
type Outcome uint8

const (
	OutcomeAdmitted         Outcome = iota // the limits admitted the request
	OutcomeRefused                         // a limit refused it
	OutcomeFallbackAdmitted                // the store of [Fallback] admitted it
	OutcomeFallbackRefused                 // the store of [Fallback] refused it
	OutcomeFailedOpen                      // the store failed, or see [ErrLimits], and [FailOpen] admitted it
	OutcomeFailedClosed                    // the store failed, and [FailClosed] refused it
	OutcomeFallbackFailed                  // the store of [Fallback] failed too: refused
	OutcomeNoKey                           // the request has no key, and was refused
	OutcomeKeyFailed                       // its key function failed, see [ErrKey], and it was refused
	OutcomeLimitsFailed                    // its limits are unknown, see [ErrLimits], and it was refused
	OutcomeInvalid                         // the call was malformed, see [ErrInvalid], and it was refused
	OutcomeCanceled                        // its caller left before the decision
	OutcomeSkipped                         // it is exempt from limits
	OutcomeShadow                          // the limits of a shadow admitted it; see Event.Shadow
	OutcomeShadowRefused                   // the limits of a shadow did not
)

const numOutcomes = OutcomeShadowRefused + 1

var outcomeNames = [numOutcomes]string{
	OutcomeAdmitted: "admitted", OutcomeRefused: "refused",
	OutcomeFallbackAdmitted: "fallback_admitted", OutcomeFallbackRefused: "fallback_refused",
	OutcomeFailedOpen: "failed_open", OutcomeFailedClosed: "failed_closed", OutcomeFallbackFailed: "fallback_failed",
	OutcomeNoKey: "no_key", OutcomeKeyFailed: "key_failed", OutcomeLimitsFailed: "limits_failed",
	OutcomeInvalid: "invalid", OutcomeCanceled: "canceled", OutcomeSkipped: "skipped",
	OutcomeShadow: "shadow", OutcomeShadowRefused: "shadow_refused",
}

// String returns the name for logs and metric labels, such as "failed_open".
func (o Outcome) String() string { return nameOf(outcomeNames[:], uint8(o), "Outcome") }

// MarshalText returns the text of String, for JSON.
func (o Outcome) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// IsServed reports whether the handler gets the request.
func (o Outcome) IsServed() bool {
	switch o {
	case OutcomeAdmitted, OutcomeFallbackAdmitted, OutcomeFailedOpen,
		OutcomeSkipped, OutcomeShadow, OutcomeShadowRefused:
		return true
	}
	return false
}

// Outcome returns the result of the request.
func (e *Event) Outcome() Outcome {
	if e.Shadow && e.Decision.Source != SourceSkipped {
		return choose(e.Decision.Allowed, OutcomeShadow, OutcomeShadowRefused)
	}
	return e.enforcedOutcome()
}

// enforcedOutcome returns the outcome as if Shadow was false.
func (e *Event) enforcedOutcome() Outcome {
	d := &e.Decision
	switch d.Source {
	case SourceNone:
		return e.undecidedOutcome()
	case SourceFallback:
		return choose(d.Allowed, OutcomeFallbackAdmitted, OutcomeFallbackRefused)
	case SourcePolicy:
		if e.Stage == StageFallback {
			return OutcomeFallbackFailed
		}
		if !d.Allowed && errors.Is(d.Err, ErrLimits) {
			return OutcomeLimitsFailed
		}
		return choose(d.Allowed, OutcomeFailedOpen, OutcomeFailedClosed)
	case SourceSkipped:
		return OutcomeSkipped
	}
	return choose(d.Allowed, OutcomeAdmitted, OutcomeRefused)
}

// undecidedOutcome returns the outcome of a request without a Source. If its key is empty, the error is of any kind.
func (e *Event) undecidedOutcome() Outcome {
	ended := e.Decision.Err == context.Canceled || e.Decision.Err == context.DeadlineExceeded
	switch {
	case errors.Is(e.Decision.Err, ErrKey):
		return OutcomeKeyFailed
	case e.Key == "" && !ended:
		return OutcomeNoKey
	case errors.Is(e.Decision.Err, ErrInvalid):
		return OutcomeInvalid
	}
	return OutcomeCanceled
}

func choose(allowed bool, yes, no Outcome) Outcome {
	if allowed {
		return yes
	}
	return no
}

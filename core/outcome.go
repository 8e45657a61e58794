package core

import (
	"context"
	"errors"
)

// Outcome says what became of the request of an [Event].
type Outcome uint8

const (
	OutcomeAdmitted         Outcome = iota // the limits admitted the request
	OutcomeRefused                         // a limit refused it
	OutcomeFallbackAdmitted                // the store of [Fallback] admitted it
	OutcomeFallbackRefused                 // the store of [Fallback] refused it
	OutcomeFailedOpen                      // no store could be asked, or see [ErrLimits], and [FailOpen] admitted it
	OutcomeFailedClosed                    // no store could be asked, and [FailClosed] refused it
	OutcomeFallbackFailed                  // the store of [Fallback] could not be asked either: refused
	OutcomeNoKey                           // the request names no client, and was refused
	OutcomeKeyFailed                       // its key could not be found out, see [ErrKey], and it was refused
	OutcomeLimitsFailed                    // its limits could not be found out, see [ErrLimits], and it was refused
	OutcomeInvalid                         // the call was malformed, see [ErrInvalid], and it was refused
	OutcomeCanceled                        // its caller had left before the decision
	OutcomeSkipped                         // it is excluded from limits
	OutcomeShadow                          // it went on in the shadow of limits that admitted it; see Event.Shadow
	OutcomeShadowRefused                   // it went on in the shadow of limits that did not
)

const outcomes = OutcomeShadowRefused + 1

var outcomeNames = [outcomes]string{
	OutcomeAdmitted: "admitted", OutcomeRefused: "refused",
	OutcomeFallbackAdmitted: "fallback_admitted", OutcomeFallbackRefused: "fallback_refused",
	OutcomeFailedOpen: "failed_open", OutcomeFailedClosed: "failed_closed", OutcomeFallbackFailed: "fallback_failed",
	OutcomeNoKey: "no_key", OutcomeKeyFailed: "key_failed", OutcomeLimitsFailed: "limits_failed",
	OutcomeInvalid: "invalid", OutcomeCanceled: "canceled", OutcomeSkipped: "skipped",
	OutcomeShadow: "shadow", OutcomeShadowRefused: "shadow_refused",
}

// String returns the word of the constant's name, such as "failed_open".
func (o Outcome) String() string { return nameOf(outcomeNames[:], uint8(o), "Outcome") }

// MarshalText returns the word, so that JSON has it.
func (o Outcome) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// IsServed reports whether the request goes on to its handler.
func (o Outcome) IsServed() bool {
	switch o {
	case OutcomeAdmitted, OutcomeFallbackAdmitted, OutcomeFailedOpen, OutcomeSkipped, OutcomeShadow, OutcomeShadowRefused:
		return true
	}
	return false
}

// Outcome returns a word for what became of the request.
func (e *Event) Outcome() Outcome {
	if e.Shadow && e.Decision.Source != SourceSkipped {
		return either(e.Decision.Allowed, OutcomeShadow, OutcomeShadowRefused)
	}
	return e.withoutShadow()
}

// withoutShadow returns the outcome that the event would have if Shadow was false.
func (e *Event) withoutShadow() Outcome {
	d := &e.Decision
	switch d.Source {
	case SourceNone:
		return e.noStore()
	case SourceFallback:
		return either(d.Allowed, OutcomeFallbackAdmitted, OutcomeFallbackRefused)
	case SourcePolicy:
		if e.Stage == StageFallback {
			return OutcomeFallbackFailed
		}
		if !d.Allowed && errors.Is(d.Err, ErrLimits) {
			return OutcomeLimitsFailed
		}
		return either(d.Allowed, OutcomeFailedOpen, OutcomeFailedClosed)
	case SourceSkipped:
		return OutcomeSkipped
	}
	return either(d.Allowed, OutcomeAdmitted, OutcomeRefused)
}

// noStore returns the outcome of a request that no store has seen. Without a key the error
// may be any, also one that matches another error.
func (e *Event) noStore() Outcome {
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

func either(allowed bool, yes, no Outcome) Outcome {
	if allowed {
		return yes
	}
	return no
}

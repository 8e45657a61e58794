package core_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/sashlimit/sash/core"
)

// TestOutcome: each event has one outcome, and each outcome a word of its own.
func TestOutcome(t *testing.T) {
	failed := fmt.Errorf("%w: something", core.ErrStore)
	event := func(source core.Source, allowed bool, err error) core.Event {
		return core.Event{Key: "k", Decision: core.Decision{Source: source, Allowed: allowed, Err: err}}
	}
	shadow := func(e core.Event) core.Event { e.Shadow = true; return e }
	keyless := func(status int, err error) core.Event {
		e := event(core.Unasked, false, err)
		e.Key, e.Status = "", status
		return e
	}
	atFallback := event(core.FromPolicy, false, failed)
	atFallback.Stage = core.StageFallback
	own := errors.New("no such session")
	seen := map[core.Outcome]bool{}
	for _, test := range []struct {
		event core.Event
		want  core.Outcome
		word  string
	}{
		{event(core.Counted, true, nil), core.OutcomeAdmitted, "admitted"},
		{event(core.Leased, true, nil), core.OutcomeAdmitted, "admitted"},
		{event(core.Counted, false, nil), core.OutcomeRefused, "refused"},
		{event(core.Remembered, false, nil), core.OutcomeRefused, "refused"},
		{event(core.FromFallback, true, failed), core.OutcomeFallbackAdmitted, "fallback_admitted"},
		{event(core.FromFallback, false, failed), core.OutcomeFallbackRefused, "fallback_refused"},
		{event(core.FromPolicy, true, failed), core.OutcomeFailedOpen, "failed_open"},
		{event(core.FromPolicy, false, failed), core.OutcomeFailedClosed, "failed_closed"},
		{atFallback, core.OutcomeFallbackFailed, "fallback_failed"},
		{keyless(0, core.ErrInvalid), core.OutcomeNameless, "nameless"},
		{keyless(400, failed), core.OutcomeNameless, "nameless"},
		{keyless(500, own), core.OutcomeKeyFailed, "key_failed"},
		{keyless(500, core.ErrLimits), core.OutcomeKeyFailed, "key_failed"},
		{event(core.Unasked, false, fmt.Errorf("%w: %w", core.ErrLimits, core.ErrInvalid)),
			core.OutcomeLimitsFailed, "limits_failed"},
		{event(core.Unasked, false, core.ErrInvalid), core.OutcomeInvalid, "invalid"},
		{event(core.Unasked, false, context.Canceled), core.OutcomeCanceled, "canceled"},
		{keyless(503, context.Canceled), core.OutcomeCanceled, "canceled"},
		{event(core.Skipped, true, nil), core.OutcomeSkipped, "skipped"},
		{shadow(event(core.Counted, true, nil)), core.OutcomeShadow, "shadow"},
		{shadow(event(core.Counted, false, nil)), core.OutcomeShadowRefused, "shadow_refused"},
		{shadow(event(core.FromPolicy, false, failed)), core.OutcomeShadowRefused, "shadow_refused"},
		{shadow(event(core.Skipped, true, nil)), core.OutcomeSkipped, "skipped"},
	} {
		got := test.event.Outcome()
		if got != test.want || got.String() != test.word {
			t.Errorf("%+v: got %v, want %v", test.event, got, test.want)
		}
		if text, err := json.Marshal(got); string(text) != `"`+test.word+`"` {
			t.Errorf("in JSON: got %s, %v, want %q", text, err, test.word)
		}
		if want := test.event.Decision.Allowed || test.event.Shadow; got.GoesOn() != want {
			t.Errorf("%v goes on: got %v, want %v", got, got.GoesOn(), want)
		}
		seen[got] = true
	}
	if len(seen) != int(core.OutcomeShadowRefused)+1 {
		t.Errorf("got %d outcomes, want all %d", len(seen), core.OutcomeShadowRefused+1)
	}
}

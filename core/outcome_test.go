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
	keyless := func(err error) core.Event {
		e := event(core.SourceNone, false, err)
		e.Key = ""
		return e
	}
	atFallback := event(core.SourcePolicy, false, failed)
	atFallback.Stage = core.StageFallback
	own := errors.New("no such session")
	seen := map[core.Outcome]bool{}
	for _, test := range []struct {
		event core.Event
		want  core.Outcome
		word  string
	}{
		{event(core.SourceCounted, true, nil), core.OutcomeAdmitted, "admitted"},
		{event(core.SourceLeased, true, nil), core.OutcomeAdmitted, "admitted"},
		{event(core.SourceCounted, false, nil), core.OutcomeRefused, "refused"},
		{event(core.SourceCached, false, nil), core.OutcomeRefused, "refused"},
		{event(core.SourceFallback, true, failed), core.OutcomeFallbackAdmitted, "fallback_admitted"},
		{event(core.SourceFallback, false, failed), core.OutcomeFallbackRefused, "fallback_refused"},
		{event(core.SourcePolicy, true, failed), core.OutcomeFailedOpen, "failed_open"},
		{event(core.SourcePolicy, false, failed), core.OutcomeFailedClosed, "failed_closed"},
		{atFallback, core.OutcomeFallbackFailed, "fallback_failed"},
		{keyless(core.ErrInvalid), core.OutcomeNoKey, "no_key"},
		{keyless(failed), core.OutcomeNoKey, "no_key"},
		{keyless(fmt.Errorf("%w: %w", core.ErrKey, own)), core.OutcomeKeyFailed, "key_failed"},
		{keyless(fmt.Errorf("%w: %w", core.ErrKey, core.ErrLimits)), core.OutcomeKeyFailed, "key_failed"},
		{event(core.SourcePolicy, false, fmt.Errorf("%w: %w", core.ErrLimits, core.ErrInvalid)),
			core.OutcomeLimitsFailed, "limits_failed"},
		{event(core.SourcePolicy, true, core.ErrLimits), core.OutcomeFailedOpen, "failed_open"},
		{event(core.SourceNone, false, core.ErrInvalid), core.OutcomeInvalid, "invalid"},
		{event(core.SourceNone, false, context.Canceled), core.OutcomeCanceled, "canceled"},
		{keyless(context.Canceled), core.OutcomeCanceled, "canceled"},
		{event(core.SourceSkipped, true, nil), core.OutcomeSkipped, "skipped"},
		{shadow(event(core.SourceCounted, true, nil)), core.OutcomeShadow, "shadow"},
		{shadow(event(core.SourceCounted, false, nil)), core.OutcomeShadowRefused, "shadow_refused"},
		{shadow(event(core.SourcePolicy, false, failed)), core.OutcomeShadowRefused, "shadow_refused"},
		{shadow(event(core.SourceSkipped, true, nil)), core.OutcomeSkipped, "skipped"},
	} {
		got := test.event.Outcome()
		if got != test.want || got.String() != test.word {
			t.Errorf("%+v: got %v, want %v", test.event, got, test.want)
		}
		if text, err := json.Marshal(got); string(text) != `"`+test.word+`"` {
			t.Errorf("in JSON: got %s, %v, want %q", text, err, test.word)
		}
		if want := test.event.Decision.Allowed || test.event.Shadow; got.IsServed() != want {
			t.Errorf("%v goes on: got %v, want %v", got, got.IsServed(), want)
		}
		seen[got] = true
	}
	if len(seen) != int(core.OutcomeShadowRefused)+1 {
		t.Errorf("got %d outcomes, want all %d", len(seen), core.OutcomeShadowRefused+1)
	}
}

// TestNames: each source and each stage has a word for logs.
func TestNames(t *testing.T) {
	for i, want := range []string{
		"none, unknown", "counted, unavailable", "cached, queued", "leased, connect", "fallback, reply",
		"policy, lease", "skipped, fallback", "Source(7), Stage(7)",
	} {
		if got := fmt.Sprintf("%v, %v", core.Source(i), core.Stage(i)); got != want {
			t.Errorf("source and stage %d are called %q, want %q", i, got, want)
		}
	}
}

package core_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/storetest"
	"github.com/sashlimit/sash/internal/errs"
)

// TestErrorPrefix: an error says "sash:" once, at its beginning, whatever it wraps.
func TestErrorPrefix(t *testing.T) {
	late := fmt.Errorf("sash: waiting for Redis: %w", core.ErrTimeout)
	full := fmt.Errorf("sash: shard 7: %w", core.ErrStoreFull)
	down := &fake{answer: fails(late)}
	unbindable := &fake{bindErr: errors.New("sash: no server")}
	_, unbound := core.New(core.Config{Name: "api", Store: unbindable, Limits: []core.Limit{core.PerMinute(1)}})
	both := limiter(t, core.Config{Store: down, OnStoreError: core.Fallback(&fake{answer: fails(full)}, 1)})
	_, usage := both.Usage(ctx, "k")
	const neither = "sash: the store failed: waiting for Redis: no answer within the timeout: " +
		"the fallback failed: shard 7: the store is full"
	for _, c := range []struct {
		err  error
		is   []error
		text string
	}{
		{limiter(t, core.Config{Store: down}).Allow(ctx, "k").Err, []error{core.ErrStore, core.ErrTimeout},
			"sash: the store failed: waiting for Redis: no answer within the timeout"},
		{limiter(t, core.Config{Store: &fake{answer: fails(full)}}).Allow(ctx, "k").Err,
			[]error{core.ErrStore, core.ErrStoreFull}, "sash: shard 7: the store is full"},
		{both.Allow(ctx, "k").Err, []error{core.ErrStore, core.ErrTimeout, core.ErrStoreFull}, neither},
		{usage, []error{core.ErrStore, core.ErrTimeout, core.ErrStoreFull}, neither},
		{limiter(t, core.Config{Store: down}).Reset(ctx, "k"), []error{core.ErrStore, core.ErrTimeout},
			"sash: the store failed: waiting for Redis: no answer within the timeout"},
		{unbound, nil, `sash: limiter "api": no server`},
	} {
		if c.err == nil || c.err.Error() != c.text {
			t.Errorf("got  %v\nwant %s", c.err, c.text)
		}
		if !isAll(c.err, c.is...) {
			t.Errorf("%v does not match all of %v", c.err, c.is)
		}
	}
}

// TestStages: the stage of an error is what the store has said, or what the error shows.
func TestStages(t *testing.T) {
	_, refused := (&net.Dialer{Timeout: time.Minute}).DialContext(t.Context(), "tcp", "127.0.0.1:0")
	if refused == nil {
		t.Fatal("port 0 accepts connections")
	}
	queued := core.AtStage(core.StageQueued, errDown)
	both := limiter(t, core.Config{
		Store: &fake{answer: fails(queued)}, OnStoreError: core.Fallback(&fake{answer: fails(errDown)}, 1)})
	for _, c := range []struct {
		err  error
		want core.Stage
	}{
		{nil, core.StageUnknown},
		{errDown, core.StageUnknown},
		{context.Canceled, core.StageUnknown},
		{core.ErrUnavailable, core.StageUnavailable},
		{fmt.Errorf("connecting: %w", refused), core.StageConnect},
		{fmt.Errorf("waiting: %w", queued), core.StageQueued},
		{core.AtStage(core.StageLease, queued), core.StageLease},
		{limiter(t, core.Config{Store: &fake{answer: fails(queued)}}).Allow(ctx, "k").Err, core.StageQueued},
		{both.Allow(ctx, "k").Err, core.StageFallback},
	} {
		if got := core.StageOf(c.err); got != c.want {
			t.Errorf("%v: stage %v, want %v", c.err, got, c.want)
		}
	}
	if queued.Error() != errDown.Error() || !errors.Is(queued, errDown) {
		t.Errorf("AtStage changes %v to %v", errDown, queued)
	}
}

// TestUnavailable: the error of a store that does not wait for its server reaches the
// caller as it is, without an allocation, also with a cause and a hint.
func TestUnavailable(t *testing.T) {
	for _, down := range []error{
		core.ErrUnavailable, errs.WithHint("raise it", fmt.Errorf("%w: OOM", core.ErrUnavailable)),
	} {
		l := limiter(t, core.Config{Store: storetest.Fixed(core.Decision{Err: down}), Observer: core.Silent})
		d := l.Allow(ctx, "k")
		if d.Err != down || !isAll(down, core.ErrStore, core.ErrUnavailable) || !d.Allowed ||
			core.StageOf(down) != core.StageUnavailable {
			t.Errorf("got %+v, want an admission with %v", d, down)
		}
		if n := testing.AllocsPerRun(100, func() { l.Allow(ctx, "k") }); n > 0 {
			t.Errorf("%v: got %v allocations, want 0", down, n)
		}
	}
}

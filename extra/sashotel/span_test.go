package sashotel_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/sashlimit/sash/core"
)

// spanEvents returns what do adds to the span in its context: a line for each event.
func spanEvents(t *testing.T, do func(context.Context)) []string {
	t.Helper()
	recorder := tracetest.NewSpanRecorder()
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)).Tracer("test")
	ctx, span := tracer.Start(t.Context(), "request")
	do(ctx)
	span.End()
	ended := recorder.Ended()
	if len(ended) != 1 {
		t.Fatalf("%d spans have ended, want 1: decisions make none", len(ended))
	}
	if got := ended[0].Status(); got.Code != codes.Unset {
		t.Errorf("the status of the span is %v, want it as it was", got)
	}
	var lines []string
	for _, e := range ended[0].Events() {
		lines = append(lines, e.Name+" "+text(e.Attributes))
	}
	return lines
}

// TestSpanEvents: what the span of a request says of each kind of decision.
func TestSpanEvents(t *testing.T) {
	const of = " sash.limiter=api"
	admitted := decided(core.SourceCounted, true, nil)
	admitted.Decision.Limit, admitted.Decision.Remaining = core.Limit{Name: "1m0s", Requests: 5}, 4
	refused := decided(core.SourceCached, false, nil)
	refused.Decision.Limit = core.Limit{Name: "1m0s", Requests: 5}
	refused.Elapsed = 0
	peek := decided(core.SourceCounted, true, nil)
	peek.Peek, peek.Elapsed = true, 0
	failed := decided(core.SourcePolicy, true, fmt.Errorf("%w: \xff%s", core.ErrTimeout, strings.Repeat("x", 1000)))
	failed.Stage, failed.Elapsed = core.StageReply, 100*time.Millisecond
	keyFailed := decided(core.SourceNone, false, fmt.Errorf("%w: no such session: 4711", core.ErrKey))
	keyFailed.Key, keyFailed.Elapsed = "", 0
	message := fmt.Sprint(core.ErrTimeout, ": \uFFFD")
	message += strings.Repeat("x", 256-len(message)+2) // the byte became three
	for name, test := range map[string]struct {
		event core.Event
		want  []string
	}{
		"admitted": {admitted, []string{"sash.decision sash.allowed=true sash.elapsed=1e-06 sash.limit=1m0s" + of +
			" sash.outcome=admitted sash.remaining=4 sash.rule=login sash.source=counted sash.store=redis"}},
		"refused": {refused, []string{"sash.decision sash.allowed=false sash.limit=1m0s" + of +
			" sash.outcome=refused sash.remaining=0 sash.rule=login sash.source=cached sash.store=redis"}},
		"peek": {peek, []string{"sash.decision sash.allowed=true" + of +
			" sash.outcome=admitted sash.peek=true sash.rule=login sash.source=counted sash.store=redis"}},
		"failed": {failed, []string{
			"sash.decision error.type=timeout sash.allowed=true sash.elapsed=0.1" + of +
				" sash.outcome=failed_open sash.rule=login sash.source=policy sash.stage=reply sash.store=redis",
			"exception error.type=timeout exception.message=" + message + of + " sash.rule=login sash.store=redis"}},
		"key failed": {keyFailed, []string{"sash.decision sash.allowed=false" + of +
			" sash.outcome=key_failed sash.rule=login sash.source=none sash.store=redis"}},
	} {
		w, _ := watch()
		got := spanEvents(t, func(ctx context.Context) { w.For("redis").Observe(ctx, test.event) })
		if !slices.Equal(got, test.want) {
			t.Errorf("%s:\n got %q\nwant %q", name, got, test.want)
		}
	}
}

// TestSpanOfNotice: a notice is on the span of the request at which it was seen, without
// its text.
func TestSpanOfNotice(t *testing.T) {
	w, _ := watch()
	got := fmt.Sprint(spanEvents(t, func(ctx context.Context) {
		w.For("redis").Notice(ctx, core.Notice{Code: "forwarded", Name: "api", Text: "All come from 192.0.2.1."})
	}))
	if want := "[sash.notice sash.limiter=api sash.notice.code=forwarded sash.rule=]"; got != want {
		t.Errorf("events %s, want %s", got, want)
	}
}

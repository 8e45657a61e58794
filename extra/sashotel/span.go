package sashotel

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/sashlimit/sash/core"
)

// The names of the events on spans.
const (
	decisionEvent = "sash.decision"
	noticeEvent   = "sash.notice"
)

// annotate adds the events of a decision to a span that records. The key of the client
// is in none of them.
func (s *store) annotate(span trace.Span, e *core.Event, o outcome, failed kind) {
	d := &e.Decision
	all := append(make([]attribute.KeyValue, 0, 14),
		limiterKey.String(clean(e.Name)),
		ruleKey.String(clean(e.Rule)),
		storeKey.String(s.name),
		outcomeKey.String(outcomeAttributes[o].outcome),
		allowedKey.Bool(d.Allowed),
		sourceKey.String(d.Source.String()),
	)
	if d.Limit.Requests > 0 { // something was counted
		all = append(all, limitKey.String(clean(d.Limit.Name)), remainingKey.Int64(d.Remaining))
	}
	if e.Elapsed > 0 {
		all = append(all, elapsedKey.Float64(e.Elapsed.Seconds()))
	}
	if e.Status != 0 {
		all = append(all, statusKey.Int(e.Status))
	}
	if e.Peek {
		all = append(all, peekKey.Bool(true))
	}
	if failed == noError {
		span.AddEvent(decisionEvent, trace.WithAttributes(all...))
		return
	}
	all = append(all, stageKey.String(e.Stage.String()), errorType(failed))
	span.AddEvent(decisionEvent, trace.WithAttributes(all...))
	span.AddEvent(semconv.ExceptionEventName, trace.WithAttributes(
		semconv.ExceptionMessage(clean(d.Err.Error())),
		errorType(failed), limiterKey.String(clean(e.Name)), ruleKey.String(clean(e.Rule)), storeKey.String(s.name)))
}

// noticed adds the event of a notice to the span of a request, if it records. The text
// is for the log: it may say more of clients than a trace should.
func noticed(ctx context.Context, n core.Notice) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	span.AddEvent(noticeEvent, trace.WithAttributes(
		limiterKey.String(clean(n.Name)), ruleKey.String(clean(n.Rule)), noticeCodeKey.String(clean(n.Code))))
}

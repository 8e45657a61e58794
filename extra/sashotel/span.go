package sashotel

import (
	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/extra/internal/metrics"
)

// annotate adds the events of a decision to a span that records. They do not contain the client's key.
func (s *store) annotate(span trace.Span, e *core.Event, failed metrics.Kind) {
	d := &e.Decision
	of := []attribute.KeyValue{
		limiterKey.String(metrics.Clean(e.Name)), ruleKey.String(metrics.Clean(e.Rule)), storeKey.String(s.name),
	}
	all := append(of[:3:3], attribute.String("sash.outcome", e.Outcome().String()), allowedKey.Bool(d.Allowed),
		sourceKey.String(d.Source.String()))
	if d.Limit.Requests > 0 { // a limit decided
		all = append(all, attribute.String("sash.limit", metrics.Clean(d.Limit.Name)),
			attribute.Int64("sash.remaining", d.Remaining))
	}
	if e.Elapsed > 0 {
		all = append(all, attribute.Float64("sash.elapsed", e.Elapsed.Seconds()))
	}
	if e.Peek {
		all = append(all, attribute.Bool("sash.peek", true))
	}
	if failed != metrics.NoError {
		of = append(of, semconv.ErrorTypeKey.String(failed.String()))
		all = append(all, attribute.String("sash.stage", e.Stage.String()), of[3])
	}
	span.AddEvent("sash.decision", trace.WithAttributes(all...))
	if failed != metrics.NoError {
		of = append(of, semconv.ExceptionMessage(metrics.Clean(d.Err.Error())))
		span.AddEvent(semconv.ExceptionEventName, trace.WithAttributes(of...))
	}
}

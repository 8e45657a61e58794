package sashotel

import (
	"context"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/sashlimit/sash/core"
)

// sources is how many values core.Source has.
const sources = int(core.Skipped) + 1

// store counts the decisions of limiters on one store.
type store struct {
	telemetry *Telemetry
	name      string
	errors    [kinds]atomic.Int64

	// durations are the attributes of a duration, by its source and by the kind of
	// error. To make them for each decision would allocate.
	durations [sources][kinds + 1][]metric.RecordOption
}

// newStore returns the observer for the store of the given name. The errors of a store
// with a name are reported from the beginning, so that a rate knows the first failure
// too. The unnamed store has none until one is observed, since a program that names its
// stores does not use it.
func newStore(t *Telemetry, name string) *store {
	s := &store{telemetry: t, name: name}
	for source := range s.durations {
		attributes := []attribute.KeyValue{storeKey.String(name), sourceKey.String(core.Source(source).String())}
		for k := range kinds {
			s.durations[source][k] = recorded(append(attributes[:2:2], errorType(k)))
		}
		s.durations[source][noError] = recorded(attributes)
	}
	if name != "" {
		for k := range kinds {
			s.reportErrors(k)
		}
	}
	return s
}

func recorded(attributes []attribute.KeyValue) []metric.RecordOption {
	return []metric.RecordOption{metric.WithAttributeSet(attribute.NewSet(attributes...))}
}

// errorType returns the attribute error.type.
func errorType(k kind) attribute.KeyValue { return semconv.ErrorTypeKey.String(kindNames[k]) }

func (s *store) reportErrors(k kind) {
	s.telemetry.errors.report(&s.errors[k], storeKey.String(s.name), errorType(k))
}

// Observe counts a decision. A peek admits and refuses no request: it is not counted
// among the decisions, but among the durations and the errors.
func (s *store) Observe(ctx context.Context, e core.Event) {
	o, failed := outcomeOf(&e), storeError(&e.Decision)
	if !e.Peek {
		key := seriesKey{limiter: e.Name, rule: e.Rule}
		if s.telemetry.byRoute {
			key.route = e.Label
		}
		s.telemetry.decisions.add(key, o)
	}
	s.measure(ctx, &e, failed)
	if failed != noError && s.errors[failed].Add(1) == 1 && s.name == "" {
		s.reportErrors(failed)
	}
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		s.annotate(span, &e, o, failed)
	}
}

// measure records how long a decision took for which something was asked.
func (s *store) measure(ctx context.Context, e *core.Event, failed kind) {
	switch source := e.Decision.Source; source {
	case core.Unasked, core.Skipped: // nothing was asked
	default:
		if e.Elapsed > 0 && int(source) < sources {
			s.telemetry.instruments.durations.Record(ctx, e.Elapsed.Seconds(), s.durations[source][failed]...)
		}
	}
}

// Notice counts a notice. Notices are of limiters, and not of stores.
func (s *store) Notice(ctx context.Context, n core.Notice) { s.telemetry.Notice(ctx, n) }

package sashotel

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/extra/internal/metrics"
)

// scope names the meter: the path of this package.
const scope = "github.com/sashlimit/sash/extra/sashotel"

// Telemetry reports the decisions of limiters to OpenTelemetry. It is an observer of limiters, and safe for concurrent
// use. [New] returns one; the zero Telemetry cannot be used.
//
// A decision costs an atomic addition, and a record in a histogram if its time was
// measured. On a span that records, it adds one event, or two if the store failed.
// Where no span records, nothing is allocated.
type Telemetry struct {
	collector   *metrics.Collector
	durations   metric.Float64Histogram
	instruments map[*metrics.Metric]metric.Float64Observable
	callback    metric.Registration
	unnamed     *store // For("")
}

// Option is an option of [New].
type Option func(*settings) error

type settings struct {
	byRoute  bool
	provider metric.MeterProvider
}

// WithMeterProvider sets the provider that receives the metrics. The default is the global provider,
// otel.GetMeterProvider(), which may be set after New.
func WithMeterProvider(provider metric.MeterProvider) Option {
	return func(s *settings) error {
		if provider == nil {
			return fmt.Errorf("sash: sashotel.WithMeterProvider(nil): " +
				"give a provider, or leave the option out to use that of otel.GetMeterProvider")
		}
		s.provider = provider
		return nil
	}
}

// ByRoute adds the attribute http.route to sash.decisions, and http.request.method where
// the pattern of the route has a method. Both are made of Event.Label. Invalid UTF-8 is
// replaced, and a label is cut to 256 bytes.
//
// Up to 1,000 limiters, rules and routes together have their own series. Further ones are counted with the route
// "other", and above 2,000 with the limiter and the rule "other" too, so that paths as labels do no harm.
//
// The SDK has its own bound: it keeps 2,000 sets of attributes of a metric, and adds up the rest under
// otel.metric.overflow. A program with more than some hundred routes should raise it by WithCardinalityLimit to 30,000.
func ByRoute() Option {
	return func(s *settings) error {
		s.byRoute = true
		return nil
	}
}

// maxZeros is the largest number of counters for which a new limiter, rule or route also reports outcomes of 0. It
// leaves half of the SDK's 2,000 sets of attributes to outcomes that happen.
const maxZeros = 1000

// New returns a Telemetry. It fails if an option is invalid, or if the provider refuses an instrument.
func New(options ...Option) (*Telemetry, error) {
	s := settings{provider: otel.GetMeterProvider()}
	for i, option := range options {
		if option == nil {
			return nil, fmt.Errorf("sash: option %d of sashotel.New is nil: leave it out", i+1)
		}
		if err := option(&s); err != nil {
			return nil, err
		}
	}
	t := &Telemetry{collector: metrics.New(s.byRoute, maxZeros)}
	t.instruments = map[*metrics.Metric]metric.Float64Observable{}
	t.unnamed = t.store("")
	if err := t.register(s.provider.Meter(scope, metric.WithSchemaURL(semconv.SchemaURL))); err != nil {
		return nil, fmt.Errorf("sash: sashotel.New: the provider refuses an instrument: %w", err)
	}
	return t, nil
}

// register creates the instruments.
func (t *Telemetry) register(meter metric.Meter) (err error) {
	d := &metrics.Durations
	t.durations, err = meter.Float64Histogram("sash."+d.Name, metric.WithUnit(d.Unit),
		metric.WithDescription(d.Help), metric.WithExplicitBucketBoundaries(metrics.Buckets...))
	if err != nil {
		return err
	}
	var all []metric.Observable
	for _, m := range t.collector.Metrics() {
		if t.instruments[m], err = instrument(meter, m); err != nil {
			return err
		}
		all = append(all, t.instruments[m])
	}
	t.callback, err = meter.RegisterCallback(t.report, all...)
	return err
}

// instrument creates the observable instrument of m.
func instrument(meter metric.Meter, m *metrics.Metric) (metric.Float64Observable, error) {
	switch name, unit, text := "sash."+m.Name, metric.WithUnit(m.Unit), metric.WithDescription(m.Help); m.Type {
	case metrics.Counter:
		return meter.Float64ObservableCounter(name, unit, text)
	case metrics.UpDownCounter:
		return meter.Float64ObservableUpDownCounter(name, unit, text)
	default:
		return meter.Float64ObservableGauge(name, unit, text)
	}
}

// report reports the observable metrics to an SDK. It is safe for concurrent use.
func (t *Telemetry) report(_ context.Context, o metric.Observer) error {
	t.collector.Read(func(m *metrics.Metric, value float64, labels ...string) {
		set := attribute.NewSet(attributes(m.Labels, labels)...)
		o.ObserveFloat64(t.instruments[m], value, metric.WithAttributeSet(set))
	})
	return nil
}

// Close stops the reports of counts and of watched stores to the provider. Durations and the events on spans continue
// while the limiters decide. A program that uses one Telemetry until its end need not call Close.
func (t *Telemetry) Close() error { return t.callback.Unregister() }

// For returns the observer of limiters whose Config.Store the metrics call by the given
// name, such as "redis". Several limiters may have one observer. The name is in the
// attribute sash.store of durations and errors. A decision of a fallback is one of the
// first store with the source "fallback".
func (t *Telemetry) For(name string) core.NoticeObserver { return t.store(name) }

// Observe counts a decision of a limiter whose store has no name.
func (t *Telemetry) Observe(ctx context.Context, e core.Event) { t.unnamed.Observe(ctx, e) }

// Notice counts a notice.
func (t *Telemetry) Notice(ctx context.Context, n core.Notice) {
	t.collector.Notice(n)
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		// The text is for the log: it may say more of clients than a trace should.
		span.AddEvent("sash.notice", trace.WithAttributes(
			limiterKey.String(metrics.Clean(n.Name)), ruleKey.String(metrics.Clean(n.Rule)),
			noticeCodeKey.String(metrics.Clean(n.Code))))
	}
}

// Watch adds the metrics of a store's Stats. The store is a *memstore.Store, a *redisstore.Store, a *regions.Store, or
// a type with the method Stats of one of these. Its Stats are read with the metrics. Watch fails for other stores and
// nil, and if a store of that name is watched already.
func (t *Telemetry) Watch(name string, store core.Store) error { return t.collector.Watch(name, store) }

// store counts the decisions of limiters on one store.
type store struct {
	*Telemetry
	name string

	// attributes holds the attributes of durations by source and kind of error, so that a decision does not allocate.
	attributes [core.SourceSkipped][metrics.NoError + 1][]metric.RecordOption
}

var _, _ core.NoticeObserver = (*Telemetry)(nil), (*store)(nil)

// store returns the observer for the store of the given name.
func (t *Telemetry) store(name string) *store {
	s := &store{Telemetry: t, name: t.collector.Store(name)}
	for source := range s.attributes {
		for kind := range s.attributes[source] {
			set := []attribute.KeyValue{storeKey.String(s.name), sourceKey.String(core.Source(source).String())}
			if kind := metrics.Kind(kind); kind != metrics.NoError {
				set = append(set, semconv.ErrorTypeKey.String(kind.String()))
			}
			s.attributes[source][kind] = []metric.RecordOption{metric.WithAttributeSet(attribute.NewSet(set...))}
		}
	}
	return s
}

// Observe counts a decision. A peek counts only among the durations and the errors.
func (s *store) Observe(ctx context.Context, e core.Event) {
	failed := s.collector.Observe(s.name, &e)
	if metrics.IsMeasured(&e) {
		s.durations.Record(ctx, e.Elapsed.Seconds(), s.attributes[e.Decision.Source][failed]...)
	}
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		s.annotate(span, &e, failed)
	}
}

package sashotel

import (
	"context"
	"fmt"
	"sync"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/sashlimit/sash/core"
)

// scope names the meter: the path of this package.
const scope = "github.com/sashlimit/sash/extra/sashotel"

// Telemetry tells OpenTelemetry what limiters decide. It is an observer of limiters and
// safe for concurrent use. [New] makes one; the zero Telemetry cannot be used.
//
// A decision costs an atomic addition, and a record in a histogram if its time was
// measured. On a span that records, it adds one event, or two if the store could not be
// asked. Where no span records, nothing is allocated.
type Telemetry struct {
	byRoute     bool
	provider    metric.MeterProvider
	instruments *instruments
	callback    metric.Registration

	decisions *seriesSet
	notices   *noticeSet
	unnamed   *store   // For("")
	errors    counters // of all stores

	mu      sync.Mutex // guards the fields below
	stores  map[string]*store
	watched []watched
}

// Option is an option of [New].
type Option func(*Telemetry) error

// WithMeterProvider sets where the metrics go. Without it they go to the global
// provider, otel.GetMeterProvider(), which may be set later than New is called.
func WithMeterProvider(provider metric.MeterProvider) Option {
	return func(t *Telemetry) error {
		if provider == nil {
			return fmt.Errorf("sash: sashotel.WithMeterProvider(nil): " +
				"give a provider, or leave the option out to use that of otel.GetMeterProvider")
		}
		t.provider = provider
		return nil
	}
}

// ByRoute adds the attribute http.route to sash.decisions, and http.request.method where
// the pattern of the route has a method. Both are made of Event.Label. Invalid UTF-8 is
// replaced, and a label is cut to 256 bytes.
//
// Limiters, rules and routes are told apart up to 1,000 together. What comes later is
// counted with the route "other", and above 2,000 with the limiter and the rule "other"
// too, so that a program that gives paths as labels does no harm.
//
// The SDK has a bound of its own: of a metric it tells 2,000 sets of attributes apart, and
// adds up the rest under otel.metric.overflow. A program with more than some hundred
// routes should raise it by WithCardinalityLimit to 20,000.
func ByRoute() Option {
	return func(t *Telemetry) error {
		t.byRoute = true
		return nil
	}
}

// New returns a Telemetry that has seen no decision. It fails if an option is wrong, or
// if the provider refuses an instrument.
func New(options ...Option) (*Telemetry, error) {
	t := &Telemetry{
		provider: otel.GetMeterProvider(), decisions: newSeriesSet(), notices: newNoticeSet(),
		stores: map[string]*store{},
	}
	for i, option := range options {
		if option == nil {
			return nil, fmt.Errorf("sash: option %d of sashotel.New is nil: leave it out", i+1)
		}
		if err := option(t); err != nil {
			return nil, err
		}
	}
	meter := t.provider.Meter(scope, metric.WithSchemaURL(semconv.SchemaURL))
	var err error
	if t.instruments, err = newInstruments(meter); err != nil {
		return nil, err
	}
	t.unnamed = t.store("")
	t.callback, err = meter.RegisterCallback(t.report, t.instruments.observables...)
	if err != nil {
		return nil, fmt.Errorf("sash: sashotel.New: the provider refuses the callback: %w", err)
	}
	return t, nil
}

// Close ends the reports of counts and of watched stores to the provider. Durations and
// the events on spans go on as long as the limiters decide. A program that uses one
// Telemetry until it ends need not call Close.
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
	t.notices.add(n)
	noticed(ctx, n)
}

var _ core.NoticeObserver = (*Telemetry)(nil)

// store returns the observer for the store of the given name.
func (t *Telemetry) store(name string) *store {
	name = clean(name)
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.stores[name]
	if s == nil {
		s = newStore(t, name)
		t.stores[name] = s
	}
	return s
}

// report tells an SDK the metrics that are not recorded decision by decision. Several
// readers may call it at once.
func (t *Telemetry) report(_ context.Context, o metric.Observer) error {
	t.decisions.counters.observe(o, t.instruments.decisions)
	t.errors.observe(o, t.instruments.errors)
	t.notices.counters.observe(o, t.instruments.notices)
	t.mu.Lock()
	all := t.watched
	t.mu.Unlock()
	for _, w := range all {
		w.report(t.instruments, o)
	}
	return nil
}

package sashotel

import (
	"fmt"

	"go.opentelemetry.io/otel/metric"

	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/core/redisstore"
)

// bounds are the upper bounds of the buckets in seconds, from 100 ns, below which no
// store in memory answers, to 100 ms, the default of core.Config.Timeout.
var bounds = []float64{
	100e-9, 250e-9, 500e-9,
	1e-6, 2.5e-6, 5e-6,
	10e-6, 25e-6, 50e-6,
	100e-6, 250e-6, 500e-6,
	1e-3, 2.5e-3, 5e-3,
	10e-3, 25e-3, 50e-3,
	100e-3,
}

// instruments are what a meter has made for all metrics.
type instruments struct {
	durations metric.Float64Histogram

	decisions, errors, notices metric.Int64Observable
	memory                     []observable[memstore.Stats]
	redis                      []observable[redisstore.Stats]
	breaker                    breakerInstruments

	observables []metric.Observable // all but durations
}

// maker makes instruments. After a first error it makes no more.
type maker struct {
	meter       metric.Meter
	observables []metric.Observable
	err         error
}

// newInstruments makes all instruments.
func newInstruments(meter metric.Meter) (*instruments, error) {
	m := &maker{meter: meter}
	all := &instruments{
		durations: m.durations(),
		decisions: m.make(counter, "sash.decisions", "{decision}", "Decisions about requests."),
		errors: m.make(counter, "sash.store.errors", "{error}",
			"Decisions for which the store could not be asked."),
		notices: m.make(counter, "sash.notices", "{notice}",
			"What limiters have noticed that their operator should know."),
		memory:  observables(m, memoryNumbers),
		redis:   observables(m, redisNumbers),
		breaker: newBreakerInstruments(m),
	}
	all.observables = m.observables
	if m.err != nil {
		return nil, fmt.Errorf("sash: sashotel.New: the provider refuses an instrument: %w", m.err)
	}
	return all, nil
}

func (m *maker) durations() metric.Float64Histogram {
	h, err := m.meter.Float64Histogram("sash.decision.duration", metric.WithUnit("s"),
		metric.WithDescription("How long decisions took that were measured, by the store and by the source of it."),
		metric.WithExplicitBucketBoundaries(bounds...))
	m.note(err)
	return h
}

// instrument is a kind of instrument.
type instrument uint8

const (
	counter       instrument = iota // never decreases
	upDownCounter                   // may decrease; the sum over stores and processes has a meaning
	gauge                           // the sum has none
)

// make makes an instrument that is asked when metrics are read.
func (m *maker) make(kind instrument, name, unit, text string) metric.Int64Observable {
	var o metric.Int64Observable
	var err error
	switch u, d := metric.WithUnit(unit), metric.WithDescription(text); kind {
	case counter:
		o, err = m.meter.Int64ObservableCounter(name, u, d)
	case upDownCounter:
		o, err = m.meter.Int64ObservableUpDownCounter(name, u, d)
	default:
		o, err = m.meter.Int64ObservableGauge(name, u, d)
	}
	m.note(err)
	m.observables = append(m.observables, o)
	return o
}

// time makes a gauge of a time.
func (m *maker) time(name, text string) metric.Float64Observable {
	g, err := m.meter.Float64ObservableGauge(name, metric.WithUnit("s"), metric.WithDescription(text))
	m.note(err)
	m.observables = append(m.observables, g)
	return g
}

func (m *maker) note(err error) {
	if m.err == nil {
		m.err = err
	}
}

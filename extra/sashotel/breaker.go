package sashotel

import (
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/sashlimit/sash/core/redisstore"
)

// breakerInstruments are the metrics of a server's breaker.
type breakerInstruments struct {
	state, trips          metric.Int64Observable
	changed, failingSince metric.Float64Observable
}

var breakerStates = [...]redisstore.State{redisstore.StateClosed, redisstore.StateHalfOpen, redisstore.StateOpen}

func newBreakerInstruments(m *maker) breakerInstruments {
	return breakerInstruments{
		state: m.make(upDownCounter, "sash.breaker.state", "{breaker}",
			"1 for the state that the breaker of the server is in, else 0."),
		trips: m.make(counter, "sash.breaker.trips", "{trip}",
			"How often the breaker has opened after it was closed."),
		changed: m.time("sash.breaker.change_timestamp", "When the breaker entered its state."),
		failingSince: m.time("sash.breaker.failing_since_timestamp",
			"When the breaker was closed last. There is none while it is closed."),
	}
}

// observe tells an SDK about the breaker of a server.
func (i *breakerInstruments) observe(o metric.Observer, b *redisstore.Breaker, store string) {
	server := append(serverAttributes(b.Server), storeKey.String(store))
	for _, state := range breakerStates {
		is := int64(0)
		if b.State == state {
			is = 1
		}
		set := attribute.NewSet(append(server[:len(server):len(server)], breakerStateKey.String(string(state)))...)
		o.ObserveInt64(i.state, is, metric.WithAttributeSet(set))
	}
	of := metric.WithAttributeSet(attribute.NewSet(server...))
	o.ObserveInt64(i.trips, signed(b.Trips), of)
	if !b.Changed.IsZero() {
		o.ObserveFloat64(i.changed, unix(b.Changed), of)
	}
	if !b.FailingSince.IsZero() {
		o.ObserveFloat64(i.failingSince, unix(b.FailingSince), of)
	}
}

// unix returns t in seconds, to the millisecond.
func unix(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

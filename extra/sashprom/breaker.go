package sashprom

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sashlimit/sash/core/redisstore"
)

// The metrics of a server's breaker.
var (
	breakerState = describe("breaker_state", "1 for the state that the breaker of the server is in, else 0.",
		"server", "state")
	breakerChanged = describe("breaker_change_timestamp_seconds", "When the breaker entered its state.", "server")
	breakerFailing = describe("breaker_failing_since_timestamp_seconds",
		"When the breaker was closed last. There is none while it is closed.", "server")
	breakerTrips = describe("breaker_trips_total", "How often the breaker has opened after it was closed.", "server")
)

var breakerStates = [...]redisstore.State{redisstore.StateClosed, redisstore.StateHalfOpen, redisstore.StateOpen}

func describeBreakers(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{breakerState, breakerChanged, breakerFailing, breakerTrips} {
		to <- desc
	}
}

// collectBreakers sends the metrics of a store's breakers. A server that is there twice
// is reported once: of a metric that is there twice, Prometheus drops the whole scrape.
func collectBreakers(breakers []redisstore.Breaker, store string, to chan<- prometheus.Metric) {
	send := func(desc *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(desc, kind, value, append([]string{store}, labels...)...)
	}
	seen := map[string]bool{}
	for _, b := range breakers {
		server := cleanLabel(b.Server)
		if seen[server] {
			continue
		}
		seen[server] = true
		for _, state := range breakerStates {
			is := 0.0
			if b.State == state {
				is = 1
			}
			send(breakerState, prometheus.GaugeValue, is, server, string(state))
		}
		if !b.Changed.IsZero() {
			send(breakerChanged, prometheus.GaugeValue, unix(b.Changed), server)
		}
		if !b.FailingSince.IsZero() {
			send(breakerFailing, prometheus.GaugeValue, unix(b.FailingSince), server)
		}
		send(breakerTrips, prometheus.CounterValue, float64(b.Trips), server)
	}
}

// unix returns t in seconds, to the millisecond.
func unix(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

package sashprom

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Stats is what a store says about itself, as [Metrics.Watch] wants it. Parts that a
// store does not have are left out.
type Stats struct {
	Breakers []Breaker // one for each server
	Memory   *Memory   // nil for a store that keeps its counts on a server
}

// Breaker is the breaker of a server.
type Breaker struct {
	Server  string // the address; each is reported once
	State   BreakerState
	Changed time.Time // when the breaker entered its state; zero if that is not known
}

// BreakerState is the state of a breaker: one of [Closed], [HalfOpen] and [Open].
type BreakerState string

// The states of a breaker.
const (
	Closed   BreakerState = "closed"    // requests go to the server
	HalfOpen BreakerState = "half-open" // a few requests try whether the server is back
	Open     BreakerState = "open"      // no request waits for the server
)

var breakerStates = [...]BreakerState{Closed, HalfOpen, Open}

// Memory is what a store in memory holds.
type Memory struct {
	Bytes, MaxBytes  int64
	Clients          int64  // clients that the store remembers
	Evictions        uint64 // clients forgotten to make room for others, ever
	RefusedNewcomers uint64 // requests of clients that found no room, ever
}

// statsDescs describes the metrics made of Stats.
type statsDescs struct {
	breaker, changed                                     *prometheus.Desc
	bytes, maxBytes, clients, evictions, refusedNewcomer *prometheus.Desc
}

func newStatsDescs() statsDescs {
	describe := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("sash_"+name, help, append([]string{"store"}, labels...), nil)
	}
	return statsDescs{
		breaker: describe("breaker_state", "1 for the state that the breaker of the server is in, else 0.",
			"server", "state"),
		changed: describe("breaker_change_timestamp_seconds", "When the breaker entered its state.", "server"),
		bytes:   describe("store_bytes", "Bytes that a store in memory holds."),
		maxBytes: describe("store_max_bytes",
			"Bytes that a store in memory holds at most."),
		clients:   describe("store_clients", "Clients that a store in memory remembers."),
		evictions: describe("store_evictions_total", "Clients forgotten to make room for others."),
		refusedNewcomer: describe("store_refused_newcomers_total",
			"Requests of clients that found no room in memory."),
	}
}

// describe sends all descriptions.
func (d *statsDescs) describe(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{
		d.breaker, d.changed, d.bytes, d.maxBytes, d.clients, d.evictions, d.refusedNewcomer,
	} {
		to <- desc
	}
}

// collect sends the metrics of the store of the given name.
func (d *statsDescs) collect(store string, stats Stats, to chan<- prometheus.Metric) {
	seen := map[string]bool{}
	for _, b := range stats.Breakers {
		server := cleanLabel(b.Server)
		if seen[server] {
			continue // Prometheus drops all metrics if one is there twice
		}
		seen[server] = true
		for _, state := range breakerStates {
			to <- gauge(d.breaker, indicator(b.State == state), store, server, string(state))
		}
		if !b.Changed.IsZero() {
			to <- gauge(d.changed, float64(b.Changed.UnixMilli())/1000, store, server)
		}
	}
	if m := stats.Memory; m != nil {
		to <- gauge(d.bytes, float64(m.Bytes), store)
		to <- gauge(d.maxBytes, float64(m.MaxBytes), store)
		to <- gauge(d.clients, float64(m.Clients), store)
		to <- counter(d.evictions, m.Evictions, store)
		to <- counter(d.refusedNewcomer, m.RefusedNewcomers, store)
	}
}

func indicator(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

func gauge(desc *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
}

func counter(desc *prometheus.Desc, value uint64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(value), labels...)
}

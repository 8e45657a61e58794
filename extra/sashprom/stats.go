package sashprom

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/core/redisstore"
)

// Stats is what a store says about itself, as [Metrics.WatchFunc] wants it. A part
// that is nil makes no metrics.
type Stats struct {
	Memory *memstore.Stats   // of a store in memory
	Redis  *redisstore.Stats // of a store that asks servers
}

// number is a metric that is one number of a store's stats.
type number[S any] struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*S) float64
}

func gauge[S any](name, help string, value func(*S) float64) number[S] {
	return number[S]{describe(name, help), prometheus.GaugeValue, value}
}

func counter[S any](name, help string, value func(*S) float64) number[S] {
	return number[S]{describe(name, help), prometheus.CounterValue, value}
}

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("sash_"+name, help, append([]string{"store"}, labels...), nil)
}

// memoryNumbers are the metrics of a store in memory.
var memoryNumbers = []number[memstore.Stats]{
	gauge("store_bytes", "Bytes that a store in memory holds.",
		func(s *memstore.Stats) float64 { return float64(s.Bytes) }),
	gauge("store_max_bytes", "Bytes that a store in memory holds at most.",
		func(s *memstore.Stats) float64 { return float64(s.MaxBytes) }),
	gauge("store_slots", "Slots that a store in memory holds: a client under three limits has three.",
		func(s *memstore.Stats) float64 { return float64(s.Slots) }),
	gauge("store_limits", "Limits of the rules that a store in memory serves.",
		func(s *memstore.Stats) float64 { return float64(s.Limits) }),
	counter("store_evictions_total", "Slots that were given up for others while they counted something.",
		func(s *memstore.Stats) float64 { return float64(s.Evictions) }),
	counter("store_sketch_only_total", "Requests that were admitted and got no slot.",
		func(s *memstore.Stats) float64 { return float64(s.SketchOnly) }),
	counter("store_refused_evicted_total",
		"Requests of clients without a slot, refused for what the sketches say of the client, maybe early.",
		func(s *memstore.Stats) float64 { return float64(s.RefusedEvicted) }),
	counter("store_refused_newcomers_total",
		"Requests of clients without a slot, refused for what others have counted, most of them early.",
		func(s *memstore.Stats) float64 { return float64(s.RefusedNewcomers) }),
	counter("store_full_total", "Decisions for which a store in memory had no room.",
		func(s *memstore.Stats) float64 { return float64(s.Full) }),
}

// redisNumbers are the metrics of a store in Redis, its breakers excepted.
var redisNumbers = []number[redisstore.Stats]{
	counter("batches_total", "Batches that were sent to Redis.",
		func(s *redisstore.Stats) float64 { return float64(s.Batches) }),
	counter("batched_requests_total", "Requests that were sent to Redis in batches.",
		func(s *redisstore.Stats) float64 { return float64(s.BatchedRequests) }),
	gauge("batch_max_requests", "Requests in the largest batch so far.",
		func(s *redisstore.Stats) float64 { return float64(s.LargestBatch) }),
	counter("scripts_total", "Scripts given to the Redis client to send, repetitions included.",
		func(s *redisstore.Stats) float64 { return float64(s.Scripts) }),
	counter("noscript_replies_total", "Replies NOSCRIPT, after which the source of the script was sent.",
		func(s *redisstore.Stats) float64 { return float64(s.NoScripts) }),
	gauge("remembered_refusals", "Refusals by Redis that this process remembers.",
		func(s *redisstore.Stats) float64 { return float64(s.Refusals) }),
	counter("refused_from_memory_total", "Requests and peeks that a remembered refusal answered, without Redis.",
		func(s *redisstore.Stats) float64 { return float64(s.RefusedFromMemory) }),
	gauge("leases", "Leases with units to spend.",
		func(s *redisstore.Stats) float64 { return float64(s.Leases) }),
	gauge("lease_unspent_units", "Units that the leases have left.",
		func(s *redisstore.Stats) float64 { return float64(s.UnspentUnits) }),
}

// describeStats sends the descriptions of all metrics that are made of Stats.
func describeStats(to chan<- *prometheus.Desc) {
	for _, n := range memoryNumbers {
		to <- n.desc
	}
	for _, n := range redisNumbers {
		to <- n.desc
	}
	describeBreakers(to)
}

// collect sends the metrics of the store of the given name.
func (s Stats) collect(store string, to chan<- prometheus.Metric) {
	if s.Memory != nil {
		collectNumbers(memoryNumbers, s.Memory, store, to)
	}
	if s.Redis != nil {
		collectNumbers(redisNumbers, s.Redis, store, to)
		collectBreakers(s.Redis.Breakers, store, to)
	}
}

func collectNumbers[S any](numbers []number[S], stats *S, store string, to chan<- prometheus.Metric) {
	for _, n := range numbers {
		to <- prometheus.MustNewConstMetric(n.desc, n.kind, n.value(stats), store)
	}
}

package sashotel

import (
	"math"

	"go.opentelemetry.io/otel/metric"

	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/core/redisstore"
)

// number is a metric that is one number of a store's Stats.
type number[S any] struct {
	kind             instrument
	name, unit, text string
	value            func(*S) int64
}

// memoryNumbers are the metrics of a store in memory.
var memoryNumbers = []number[memstore.Stats]{
	{upDownCounter, "sash.store.memory.usage", "By", "Bytes that a store in memory holds.",
		func(s *memstore.Stats) int64 { return s.Bytes }},
	{upDownCounter, "sash.store.memory.limit", "By", "Bytes that a store in memory holds at most.",
		func(s *memstore.Stats) int64 { return s.MaxBytes }},
	{upDownCounter, "sash.store.slots", "{slot}",
		"Slots that a store in memory holds: a client under three limits has three.",
		func(s *memstore.Stats) int64 { return s.Slots }},
	{upDownCounter, "sash.store.limits", "{limit}", "Limits of the rules that a store in memory serves.",
		func(s *memstore.Stats) int64 { return s.Limits }},
	{counter, "sash.store.evictions", "{eviction}", "Slots that were given up for others while they counted something.",
		func(s *memstore.Stats) int64 { return signed(s.Evictions) }},
	{counter, "sash.store.sketch_only", "{request}", "Requests that were admitted and got no slot.",
		func(s *memstore.Stats) int64 { return signed(s.SketchOnly) }},
	{counter, "sash.store.refused_evicted", "{request}",
		"Requests of clients without a slot, refused for what the sketches say of the client, maybe early.",
		func(s *memstore.Stats) int64 { return signed(s.RefusedEvicted) }},
	{counter, "sash.store.refused_newcomers", "{request}",
		"Requests of clients without a slot, refused for what others have counted, most of them early.",
		func(s *memstore.Stats) int64 { return signed(s.RefusedNewcomers) }},
	{counter, "sash.store.full", "{decision}", "Decisions for which a store in memory had no room.",
		func(s *memstore.Stats) int64 { return signed(s.Full) }},
}

// redisNumbers are the metrics of a store in Redis, its breakers excepted.
var redisNumbers = []number[redisstore.Stats]{
	{counter, "sash.batches", "{batch}", "Batches that were sent to Redis.",
		func(s *redisstore.Stats) int64 { return signed(s.Batches) }},
	{counter, "sash.batched_requests", "{request}", "Requests that were sent to Redis in batches.",
		func(s *redisstore.Stats) int64 { return signed(s.BatchedRequests) }},
	{gauge, "sash.batch.max_requests", "{request}", "Requests in the largest batch so far.",
		func(s *redisstore.Stats) int64 { return signed(s.LargestBatch) }},
	{counter, "sash.scripts", "{script}", "Scripts given to the Redis client to send, repetitions included.",
		func(s *redisstore.Stats) int64 { return signed(s.Scripts) }},
	{counter, "sash.noscript_replies", "{reply}", "Replies NOSCRIPT, after which the source of the script was sent.",
		func(s *redisstore.Stats) int64 { return signed(s.NoScripts) }},
	{upDownCounter, "sash.remembered_refusals", "{refusal}", "Refusals by Redis that this process remembers.",
		func(s *redisstore.Stats) int64 { return s.Refusals }},
	{counter, "sash.refused_from_memory", "{request}",
		"Requests and peeks that a remembered refusal answered, without Redis.",
		func(s *redisstore.Stats) int64 { return signed(s.RefusedFromMemory) }},
	{upDownCounter, "sash.leases", "{lease}", "Leases with units to spend.",
		func(s *redisstore.Stats) int64 { return s.Leases }},
	{upDownCounter, "sash.lease.unspent_units", "{unit}", "Units that the leases have left.",
		func(s *redisstore.Stats) int64 { return s.UnspentUnits }},
}

// signed returns n as OpenTelemetry has it.
func signed(n uint64) int64 {
	if n > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(n)
}

// observable is a number with its instrument.
type observable[S any] struct {
	as    metric.Int64Observable
	value func(*S) int64
}

// observables makes the instruments of numbers.
func observables[S any](m *maker, numbers []number[S]) []observable[S] {
	all := make([]observable[S], 0, len(numbers))
	for _, n := range numbers {
		all = append(all, observable[S]{m.make(n.kind, n.name, n.unit, n.text), n.value})
	}
	return all
}

// observe tells an SDK the numbers of a store.
func observe[S any](o metric.Observer, all []observable[S], stats *S, store metric.MeasurementOption) {
	for _, n := range all {
		o.ObserveInt64(n.as, n.value(stats), store)
	}
}

package metrics

import (
	"reflect"
	"time"

	"github.com/sashlimit/sash/core/redisstore"
	"github.com/sashlimit/sash/extra/regions"
)

// Type is the type of a metric.
type Type uint8

// The types of metrics.
const (
	Counter       Type = iota // only grows
	UpDownCounter             // may decrease; can be summed over stores and processes
	Gauge                     // cannot be summed
)

// Metric describes a metric.
type Metric struct {
	Type
	Name   string // its parts are joined by dots
	Unit   string // "s", "By", or the counted thing in braces
	Help   string
	Labels []string

	field string // field of a store's Stats, or empty
}

// Durations describes the histogram of decisions, which Read does not emit.
var Durations = Metric{Name: "decision.duration", Unit: "s", Labels: []string{"store", "source"},
	Help: "Duration of measured decisions, by store and source."}

// Buckets are the upper bounds of Durations in seconds: from 100 ns, less than a store in memory takes, to 100 ms, the
// default of core.Config.Timeout.
var Buckets = []float64{
	100e-9, 250e-9, 500e-9, 1e-6, 2.5e-6, 5e-6, 10e-6, 25e-6, 50e-6, 100e-6, 250e-6, 500e-6,
	1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 100e-3,
}

var (
	decisionsMetric = Metric{Counter, "decisions", "{decision}", "Decisions about requests.",
		[]string{"limiter", "rule", "outcome", "allowed"}, ""}
	failures = Metric{Counter, "store.errors", "{error}", "Decisions for which the store failed.",
		[]string{"store", "kind"}, ""}
	notices = Metric{Counter, "notices", "{notice}",
		"Notices of limiters to their operator, once by each limiter and code.",
		[]string{"limiter", "rule", "code"}, ""}

	serverLabels = []string{"store", "server"}
	breakerState = Metric{UpDownCounter, "breaker.state", "{breaker}",
		"1 for the state that the breaker of the server is in, else 0.", []string{"store", "server", "state"}, ""}
	breakerTrips = Metric{Counter, "breaker.trips", "{trip}",
		"Transitions of the breaker from closed to open.", serverLabels, ""}
	breakerChanged = Metric{Gauge, "breaker.change_timestamp", "s",
		"When the breaker entered its state.", serverLabels, ""}
	breakerFailing = Metric{Gauge, "breaker.failing_since_timestamp", "s",
		"When the breaker was closed last. There is none while it is closed.", serverLabels, ""}
)

// statsMetric returns the metric of a field of a store's Stats.
func statsMetric(field string, t Type, name, unit, help string) Metric {
	return Metric{t, name, unit, help, serverLabels[:1], field}
}

// memoryMetrics are the metrics of a store in memory.
var memoryMetrics = []Metric{
	statsMetric("Bytes", UpDownCounter, "store.memory.usage", "By", "Bytes held."),
	statsMetric("MaxBytes", UpDownCounter, "store.memory.limit", "By", "Bytes held at most."),
	statsMetric("Slots", UpDownCounter, "store.slots", "{slot}", "Slots held: a client under three limits has three."),
	statsMetric("Limits", UpDownCounter, "store.limits", "{limit}", "Limits of the rules that the store serves."),
	statsMetric("Evictions", Counter, "store.evictions", "{eviction}", "Slots given up while they counted something."),
	statsMetric("SketchOnly", Counter, "store.sketch_only", "{request}",
		"Requests that were admitted and got no slot."),
	statsMetric("RefusedEvicted", Counter, "store.refused_evicted", "{request}",
		"Requests without a slot, refused for what the sketches say of the client, maybe early."),
	statsMetric("RefusedNewKeys", Counter, "store.refused_new_keys", "{request}",
		"Requests without a slot, refused for what others have counted, most of them early."),
	statsMetric("Full", Counter, "store.full", "{decision}", "Decisions for which there was no room."),
}

// redisMetrics are the metrics of a store in Redis without its breakers.
var redisMetrics = []Metric{
	statsMetric("Batches", Counter, "batches", "{batch}", "Batches that were sent to Redis."),
	statsMetric("BatchRequests", Counter, "batched_requests", "{request}", "Requests sent to Redis in batches."),
	statsMetric("LargestBatch", Gauge, "batch.max_requests", "{request}", "Requests in the largest batch so far."),
	statsMetric("Scripts", Counter, "scripts", "{script}", "Scripts given to the Redis client, repetitions included."),
	statsMetric("NoScripts", Counter, "noscript_replies", "{reply}", "Replies NOSCRIPT: the script is sent again."),
	statsMetric("Refusals", UpDownCounter, "cached_refusals", "{refusal}", "Refusals in the cache of this process."),
	statsMetric("RefusedFromMemory", Counter, "refused_from_memory", "{request}",
		"Requests and peeks that a cached refusal answered, without Redis."),
	statsMetric("Leases", UpDownCounter, "leases", "{lease}", "Leases with units to spend."),
	statsMetric("UnspentUnits", UpDownCounter, "lease.unspent_units", "{unit}", "Units that the leases have left."),
}

// The metrics of each region of a store over regions.
var (
	regionLabels = []string{"store", "region"}
	regionUp     = Metric{UpDownCounter, "region.up", "{region}",
		"1 while the region answers, 0 while it is silent.", regionLabels, ""}
	regionAge = Metric{Gauge, "region.answer_timestamp", "s",
		"When the latest answer of the region came.", regionLabels, ""}
	regionSpill = Metric{Counter, "region.spilled", "{request}",
		"Requests that this other region has admitted, under a strict limit.", regionLabels, ""}
)

// regionsMetrics are the metrics of a store over regions as a whole.
var regionsMetrics = []Metric{
	statsMetric("Clients", UpDownCounter, "region.clients", "{client}",
		"Busy clients that are polled in other regions."),
	statsMetric("Overdue", UpDownCounter, "region.overdue", "{client}",
		"Clients whose poll is overdue: a share decides."),
}

// emitRegions emits the metrics of regions.
func emitRegions(emit Emit, store string, all []regions.Region) {
	for _, r := range all {
		up := 1.0
		if !r.SilentSince.IsZero() {
			up = 0
		}
		emit(&regionUp, up, store, Clean(r.Name))
		emit(&regionSpill, float64(r.Spilled), store, Clean(r.Name))
		if !r.Latest.IsZero() {
			emit(&regionAge, unix(r.Latest), store, Clean(r.Name))
		}
	}
}

// Metrics returns the metrics that Read emits.
func (t *Collector) Metrics() []*Metric {
	all := []*Metric{
		&t.decisionsMetric, &failures, &notices, &breakerState, &breakerTrips, &breakerChanged, &breakerFailing,
		&regionUp, &regionAge, &regionSpill,
	}
	for i := range memoryMetrics {
		all = append(all, &memoryMetrics[i])
	}
	for i := range redisMetrics {
		all = append(all, &redisMetrics[i])
	}
	for i := range regionsMetrics {
		all = append(all, &regionsMetrics[i])
	}
	return all
}

// emitStats emits the metrics of a store's Stats.
func emitStats(emit Emit, store string, metrics []Metric, stats any) {
	v := reflect.ValueOf(stats)
	for i := range metrics {
		value := v.FieldByName(metrics[i].field).Convert(reflect.TypeFor[float64]())
		emit(&metrics[i], value.Float(), store)
	}
}

// emitBreakers emits the metrics of breakers, once for each server: Prometheus drops all metrics if one is duplicate.
func emitBreakers(emit Emit, store string, breakers []redisstore.Breaker) {
	seen := map[string]bool{}
	for _, b := range breakers {
		if server := Clean(b.Server); !seen[server] {
			seen[server] = true
			emitBreaker(emit, store, server, &b)
		}
	}
}

func emitBreaker(emit Emit, store, server string, b *redisstore.Breaker) {
	for _, state := range []redisstore.State{redisstore.StateClosed, redisstore.StateHalfOpen, redisstore.StateOpen} {
		value := 0.0
		if b.State == state {
			value = 1
		}
		emit(&breakerState, value, store, server, string(state))
	}
	emit(&breakerTrips, float64(b.TripCount), store, server)
	if !b.Changed.IsZero() {
		emit(&breakerChanged, unix(b.Changed), store, server)
	}
	if !b.FailingSince.IsZero() {
		emit(&breakerFailing, unix(b.FailingSince), store, server)
	}
}

// unix returns t in seconds, to the millisecond.
func unix(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

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
	Counter       Type = iota // never decreases
	UpDownCounter             // may decrease; the sum over stores and processes has a meaning
	Gauge                     // the sum has none
)

// Metric describes a metric.
type Metric struct {
	Type
	Name   string // its parts are joined by dots
	Unit   string // "s", "By", or what is counted, in braces
	Help   string
	Labels []string

	field string // of a store's Stats, or empty
}

// Durations describes the histogram of decisions, which Read does not tell.
var Durations = Metric{Name: "decision.duration", Unit: "s", Labels: []string{"store", "source"},
	Help: "Duration of decisions that were measured, by the store and by the source of the decision."}

// Buckets are the upper bounds of Durations, from 100 ns, below which no store in memory
// answers, to 100 ms, the default of core.Config.Timeout.
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
		"What limiters have noticed that their operator should know, once by each limiter and code.",
		[]string{"limiter", "rule", "code"}, ""}

	ofServer     = []string{"store", "server"}
	breakerState = Metric{UpDownCounter, "breaker.state", "{breaker}",
		"1 for the state that the breaker of the server is in, else 0.", []string{"store", "server", "state"}, ""}
	breakerTrips = Metric{Counter, "breaker.trips", "{trip}",
		"How often the breaker has opened after it was closed.", ofServer, ""}
	breakerChanged = Metric{Gauge, "breaker.change_timestamp", "s", "When the breaker entered its state.", ofServer, ""}
	breakerFailing = Metric{Gauge, "breaker.failing_since_timestamp", "s",
		"When the breaker was closed last. There is none while it is closed.", ofServer, ""}
)

// ofStats returns the metric of a field of a store's Stats.
func ofStats(field string, t Type, name, unit, help string) Metric {
	return Metric{t, name, unit, help, ofServer[:1], field}
}

// memory are the metrics of a store in memory.
var memory = []Metric{
	ofStats("Bytes", UpDownCounter, "store.memory.usage", "By", "Bytes held."),
	ofStats("MaxBytes", UpDownCounter, "store.memory.limit", "By", "Bytes held at most."),
	ofStats("Slots", UpDownCounter, "store.slots", "{slot}", "Slots held: a client under three limits has three."),
	ofStats("Limits", UpDownCounter, "store.limits", "{limit}", "Limits of the rules that the store serves."),
	ofStats("Evictions", Counter, "store.evictions", "{eviction}", "Slots given up while they counted something."),
	ofStats("SketchOnly", Counter, "store.sketch_only", "{request}", "Requests that were admitted and got no slot."),
	ofStats("RefusedEvicted", Counter, "store.refused_evicted", "{request}",
		"Requests without a slot, refused for what the sketches say of the client, maybe early."),
	ofStats("RefusedNewKeys", Counter, "store.refused_new_keys", "{request}",
		"Requests without a slot, refused for what others have counted, most of them early."),
	ofStats("Full", Counter, "store.full", "{decision}", "Decisions for which there was no room."),
}

// redis are the metrics of a store in Redis, its breakers excepted.
var redis = []Metric{
	ofStats("Batches", Counter, "batches", "{batch}", "Batches that were sent to Redis."),
	ofStats("BatchedRequests", Counter, "batched_requests", "{request}", "Requests sent to Redis in batches."),
	ofStats("LargestBatch", Gauge, "batch.max_requests", "{request}", "Requests in the largest batch so far."),
	ofStats("Scripts", Counter, "scripts", "{script}", "Scripts given to the Redis client, repetitions included."),
	ofStats("NoScripts", Counter, "noscript_replies", "{reply}", "Replies NOSCRIPT: the script is sent again."),
	ofStats("Refusals", UpDownCounter, "remembered_refusals", "{refusal}", "Refusals that this process remembers."),
	ofStats("RefusedFromMemory", Counter, "refused_from_memory", "{request}",
		"Requests and peeks that a remembered refusal answered, without Redis."),
	ofStats("Leases", UpDownCounter, "leases", "{lease}", "Leases with units to spend."),
	ofStats("UnspentUnits", UpDownCounter, "lease.unspent_units", "{unit}", "Units that the leases have left."),
}

// perRegion are the metrics of each region of a store over regions.
var (
	ofRegion = []string{"store", "region"}
	regionUp = Metric{UpDownCounter, "region.up", "{region}",
		"1 while the region answers, 0 while it is silent.", ofRegion, ""}
	regionAge   = Metric{Gauge, "region.answer_timestamp", "s", "When the latest answer of the region came.", ofRegion, ""}
	regionSpill = Metric{Counter, "region.spilled", "{request}",
		"Requests that this other region has admitted, under a strict limit.", ofRegion, ""}
)

// regional are the metrics of a store over regions, those of each region excepted.
var regional = []Metric{
	ofStats("Clients", UpDownCounter, "region.clients", "{client}", "Busy clients that are polled in other regions."),
	ofStats("Overdue", UpDownCounter, "region.overdue", "{client}", "Clients whose poll is overdue: a share decides."),
}

// tellRegions tells the metrics of regions.
func tellRegions(tell Tell, store string, all []regions.Region) {
	for _, r := range all {
		up := 1.0
		if !r.SilentSince.IsZero() {
			up = 0
		}
		tell(&regionUp, up, store, Clean(r.Name))
		tell(&regionSpill, float64(r.Spilled), store, Clean(r.Name))
		if !r.Latest.IsZero() {
			tell(&regionAge, unix(r.Latest), store, Clean(r.Name))
		}
	}
}

// Metrics returns the metrics that Read tells.
func (t *Tally) Metrics() []*Metric {
	all := []*Metric{
		&t.decisionsMetric, &failures, &notices, &breakerState, &breakerTrips, &breakerChanged, &breakerFailing,
		&regionUp, &regionAge, &regionSpill,
	}
	for i := range memory {
		all = append(all, &memory[i])
	}
	for i := range redis {
		all = append(all, &redis[i])
	}
	for i := range regional {
		all = append(all, &regional[i])
	}
	return all
}

// tellStats tells the metrics of a store's Stats.
func tellStats(tell Tell, store string, metrics []Metric, stats any) {
	v := reflect.ValueOf(stats)
	for i := range metrics {
		value := v.FieldByName(metrics[i].field).Convert(reflect.TypeFor[float64]())
		tell(&metrics[i], value.Float(), store)
	}
}

// tellBreakers tells the metrics of breakers. A server that is there twice is told once:
// Prometheus drops all metrics if one of them is there twice.
func tellBreakers(tell Tell, store string, breakers []redisstore.Breaker) {
	seen := map[string]bool{}
	for _, b := range breakers {
		if server := Clean(b.Server); !seen[server] {
			seen[server] = true
			tellBreaker(tell, store, server, &b)
		}
	}
}

func tellBreaker(tell Tell, store, server string, b *redisstore.Breaker) {
	for _, state := range []redisstore.State{redisstore.StateClosed, redisstore.StateHalfOpen, redisstore.StateOpen} {
		is := 0.0
		if b.State == state {
			is = 1
		}
		tell(&breakerState, is, store, server, string(state))
	}
	tell(&breakerTrips, float64(b.TripCount), store, server)
	if !b.Changed.IsZero() {
		tell(&breakerChanged, unix(b.Changed), store, server)
	}
	if !b.FailingSince.IsZero() {
		tell(&breakerFailing, unix(b.FailingSince), store, server)
	}
}

// unix returns t in seconds, to the millisecond.
func unix(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

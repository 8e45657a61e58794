// Package sashprom gives Prometheus the metrics of sash. docs/monitoring.md shows what to watch.
//
//	metrics, err := sashprom.New()
//	...
//	prometheus.MustRegister(metrics)
//	err = metrics.Watch("redis", store)
//	observer := core.Observers(metrics.For("redis"), core.LogErrors(slog.Default(), time.Minute))
//	limiter, err := core.New(core.Config{Name: "api", Store: store, Observer: observer, ...})
//
// An observer takes the place of the log that a limiter writes by itself; the second
// observer above keeps it.
//
// These are the metrics. The key of a client is never a label.
//
//	sash_decisions_total{limiter, rule, outcome, allowed}   decisions; with ByRoute also by route
//	sash_decision_duration_seconds{store, source}           histogram: how long decisions took
//	sash_store_errors_total{store, kind}                    decisions for which the store failed
//	sash_notices_total{limiter, rule, code}                 notices, see core.Notice
//
// [Metrics.Watch] adds these of a memstore:
//
//	sash_store_memory_usage_bytes{store}        bytes held
//	sash_store_memory_limit_bytes{store}        bytes held at most
//	sash_store_slots{store}                     slots held: a client under three limits has three
//	sash_store_limits{store}                    limits of the rules that the store serves
//	sash_store_evictions_total{store}           slots given up for others while they counted something
//	sash_store_sketch_only_total{store}         requests that were admitted and got no slot
//	sash_store_refused_evicted_total{store}     requests without a slot, refused for what the client has counted
//	sash_store_refused_new_keys_total{store}   the same for what others have counted; most are early
//	sash_store_full_total{store}                decisions for which there was no room
//
// And it adds these of a redisstore:
//
//	sash_breaker_state{store, server, state}                     1 for the state of the server's breaker, else 0
//	sash_breaker_change_timestamp_seconds{store, server}         when the breaker entered its state
//	sash_breaker_failing_since_timestamp_seconds{store, server}  when it was closed last; none while it is closed
//	sash_breaker_trips_total{store, server}                      how often it has opened after it was closed
//	sash_batches_total{store}                                    batches that were sent
//	sash_batched_requests_total{store}                           requests in them
//	sash_batch_max_requests{store}                               requests in the largest batch so far
//	sash_scripts_total{store}                                    scripts given to the client, repetitions included
//	sash_noscript_replies_total{store}                           replies NOSCRIPT; the source was sent then
//	sash_cached_refusals{store}                                  refusals in the cache of this process
//	sash_refused_from_memory_total{store}                        requests and peeks that such a refusal answered
//	sash_leases{store}                                           leases with units to spend
//	sash_lease_unspent_units{store}                              units that they have left
//
// And it adds these of a store over regions:
//
//	sash_region_up{store, region}                        1 while the region answers, 0 while it is silent
//	sash_region_answer_timestamp_seconds{store, region}  when the latest answer of the region came
//	sash_region_spilled_total{store, region}             requests that this other region has admitted, if strict
//	sash_region_clients{store}                           busy clients that are polled in other regions
//	sash_region_overdue{store}                           clients whose poll is overdue: a share decides
//
// What the numbers of stores mean is said at memstore.Stats, redisstore.Stats and regions.Stats.
//
// Of the decisions of a store in memory, one in 16 is measured, see core.Event: count
// decisions by sash_decisions_total.
//
// The outcome of a decision is that of core.Event, one of these:
//
//	admitted           a limit admitted the request
//	refused            a limit refused it
//	fallback_admitted  the store of core.Fallback admitted it
//	fallback_refused   the store of core.Fallback refused it
//	failed_open        no store could be asked, and core.FailOpen admitted it
//	failed_closed      no store could be asked, and core.FailClosed refused it
//	fallback_failed    neither store could be asked, and it was refused
//	no_key             it has no key
//	key_failed         its key function failed
//	limits_failed      its limits are unknown, and the policy refused it
//	invalid            the call was malformed: a negative cost
//	canceled           its caller had left before the decision
//	skipped            it is excluded from limits
//	shadow             it went on in the shadow of a limit that admitted it
//	shadow_refused     it went on in the shadow of a limit that did not
//
// The kind of an error is one of these:
//
//	timeout      no answer within core.Config.Timeout
//	connection   the network, or no connection
//	server       an error that the server answered
//	unavailable  the store has been failing: the request did not wait
//	full         a memstore had no room
//	other        any other error
//
// The package is a module of its own, so that Prometheus does not become a
// dependency of sash.
package sashprom

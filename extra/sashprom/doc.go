// Package sashprom gives Prometheus the metrics of sash.
//
//	metrics := sashprom.New()
//	prometheus.MustRegister(metrics)
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
//	sash_store_errors_total{store, kind}                    decisions for which the store could not be asked
//	sash_breaker_state{store, server, state}                1 for the state that the breaker is in, else 0
//	sash_breaker_change_timestamp_seconds{store, server}    when the breaker entered its state
//	sash_store_bytes{store}                                 memory of a store in memory
//	sash_store_max_bytes{store}                             the bound of that memory
//	sash_store_clients{store}                               clients that the store remembers
//	sash_store_evictions_total{store}                       clients forgotten to make room for others
//	sash_store_refused_newcomers_total{store}               clients that found no room
//
// The last seven need [Metrics.Watch].
//
// Of the decisions of a store in memory, one in 16 is measured, see core.Event: count
// decisions by sash_decisions_total.
//
// The outcome of a decision is one of these:
//
//	admitted       a limit admitted the request
//	refused        a limit refused it
//	fallback       the store of core.Fallback decided; allowed says how
//	failed_open    no store could be asked, and core.FailOpen admitted the request
//	failed_closed  no store could be asked, and core.FailClosed or a failed fallback refused it
//	nameless       the request had no key
//	invalid        the call was malformed: a negative cost
//	canceled       the caller had left before the decision
//	skipped        the request is excluded from limits
//
// The kind of an error is one of these:
//
//	timeout      no answer within core.Config.Timeout
//	connection   the network, or no connection
//	server       an error that the server answered
//	unavailable  the store has been failing, and the request did not wait for it
//	full         a memstore had no room
//	other        any other error
//
// The package is a module of its own, so that Prometheus does not become a
// dependency of sash.
package sashprom

// Package sashotel gives OpenTelemetry the metrics of sash, and an event on the span of
// each request. docs/monitoring.md shows what to watch.
//
//	telemetry, err := sashotel.New()
//	...
//	err = telemetry.Watch("redis", store)
//	...
//	observer := core.Observers(telemetry.For("redis"), core.LogErrors(slog.Default(), time.Minute))
//	limiter, err := core.New(core.Config{Name: "api", Store: store, Observer: observer, ...})
//
// An observer takes the place of the log that a limiter writes by itself; the second
// observer above keeps it.
//
// # Metrics
//
// These are the metrics, with their kind, unit and attributes. The key of a client is
// never an attribute.
//
//	sash.decisions           counter    {decision}  sash.limiter, sash.rule, sash.outcome, sash.allowed
//	sash.decision.duration   histogram  s           sash.store, sash.source, error.type
//	sash.store.errors        counter    {error}     sash.store, error.type
//	sash.notices             counter    {notice}    sash.limiter, sash.rule, sash.notice.code
//
// With [ByRoute], decisions also have http.route and http.request.method. A duration has
// error.type only if the store failed. Of the decisions of a store in memory,
// one in 16 is measured, see core.Event: count decisions by sash.decisions.
//
// [Telemetry.Watch] adds these of a memstore:
//
//	sash.store.memory.usage       updowncounter  By          sash.store
//	sash.store.memory.limit       updowncounter  By          sash.store
//	sash.store.slots              updowncounter  {slot}      sash.store
//	sash.store.limits             updowncounter  {limit}     sash.store
//	sash.store.evictions          counter        {eviction}  sash.store
//	sash.store.sketch_only        counter        {request}   sash.store
//	sash.store.refused_evicted    counter        {request}   sash.store
//	sash.store.refused_new_keys  counter        {request}   sash.store
//	sash.store.full               counter        {decision}  sash.store
//
// And it adds these of a redisstore:
//
//	sash.batches              counter        {batch}    sash.store
//	sash.batched_requests     counter        {request}  sash.store
//	sash.batch.max_requests   gauge          {request}  sash.store
//	sash.scripts              counter        {script}   sash.store
//	sash.noscript_replies     counter        {reply}    sash.store
//	sash.cached_refusals      updowncounter  {refusal}  sash.store
//	sash.refused_from_memory  counter        {request}  sash.store
//	sash.leases               updowncounter  {lease}    sash.store
//	sash.lease.unspent_units  updowncounter  {unit}     sash.store
//
// And these of the breaker of each of its servers:
//
//	sash.breaker.state  updowncounter  {breaker}  sash.store, server.address, server.port, sash.breaker.state
//	sash.breaker.trips                    counter  {trip}  sash.store, server.address, server.port
//	sash.breaker.change_timestamp         gauge    s       sash.store, server.address, server.port
//	sash.breaker.failing_since_timestamp  gauge    s       sash.store, server.address, server.port
//
// And these of a store over regions:
//
//	sash.region.up                updowncounter  {region}   sash.store, sash.region
//	sash.region.answer_timestamp  gauge          s          sash.store, sash.region
//	sash.region.spilled           counter        {request}  sash.store, sash.region
//	sash.region.clients           updowncounter  {client}   sash.store
//	sash.region.overdue           updowncounter  {client}   sash.store
//
// sash.breaker.state is 1 for the state that the breaker of a server is in ("closed",
// "half-open" or "open"), else 0. The two timestamps are seconds since 1970; there is no
// second one while the breaker is closed. What the other numbers mean is said at
// memstore.Stats, redisstore.Stats and regions.Stats.
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
// The error.type is one of these:
//
//	timeout      no answer within core.Config.Timeout
//	connection   the network, or no connection
//	server       an error that the server answered
//	unavailable  the store has been failing: the request did not wait
//	full         a memstore had no room
//	other        any other error
//
// Decisions, errors and notices are counted in this package and told to the SDK when it
// reads metrics: to add to a counter of the SDK takes half as long as a whole request
// through the middleware. So they have no exemplars; the histogram has.
//
// # Spans
//
// A decision adds an event to the span in the context of its request, if that span
// records. The limits then stand inside whatever begins the span, such as otelhttp.
//
//	sash.decision  sash.limiter, sash.rule, sash.store, sash.outcome, sash.allowed, sash.source;
//	               where they are known sash.limit, sash.remaining, sash.elapsed (seconds), sash.peek;
//	               where the store failed sash.stage, error.type
//	exception      after it, where the store failed: exception.message, error.type,
//	               sash.limiter, sash.rule, sash.store
//	sash.notice    sash.limiter, sash.rule, sash.notice.code
//
// The limit is the one that binds, the source is core.Decision.Source, and core.Event has
// the stage and the status. A peek has the event too. The status of the span stays
// as it is.
//
// The package is a module of its own, so that OpenTelemetry does not become a dependency
// of sash. It needs the API of OpenTelemetry alone; the program brings the SDK.
package sashotel

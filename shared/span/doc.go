// Package span exports a function's work as OpenTelemetry spans with OTLP over HTTP. It does
// nothing unless OTEL_EXPORTER_OTLP_TRACES_ENDPOINT or OTEL_EXPORTER_OTLP_ENDPOINT is set.
//
// Spans continue the trace of the request's traceparent (package reqctx), or start a trace. The
// parent's flag and OTEL_TRACES_SAMPLER decide whether a span is sampled. The spans and their
// fields are:
//
//	a route's pattern    server: method, status, problem, request ID
//	check                server, in the checker: namespace, app, verdict, request ID of a denial
//	event                consumer: an event whose trace differs from that of its request
//	notify TYPE          producer: the app in the notification
//	reconcile            internal: the app; child of the request or resync that caused it
//	store commit, …      client: the operation and its outcome
//	kubernetes GET, …    client, also registry and api: method, host and status
//
// Spans contain valid names, request IDs and words from fixed lists. They contain no text that a
// client chooses: no path, query, header, body, key, key prefix or token, and no error text.
//
// Requests never wait for the collector. Ended spans wait in a bounded queue. Dropped and failed
// spans are counted; the first one is logged, and then none until exports succeed again. A process
// waits at most [Closing] for the last export.
package span

// Package span exports a function's work as OpenTelemetry spans with OTLP over HTTP. It is off
// unless OTEL_EXPORTER_OTLP_TRACES_ENDPOINT or OTEL_EXPORTER_OTLP_ENDPOINT is set; then all calls
// return immediately.
//
// Spans continue the trace of the request's traceparent (package trace), or start a trace. The
// parent's flag and OTEL_TRACES_SAMPLER decide whether a span is sampled.
//
//	a route, "POST event"   server; the pattern, not the path, method, status, problem, request ID
//	check                   server, of the checker: namespace, app, verdict, request ID of a denial
//	event                   consumer, of an event in a trace other than its request's
//	notify TYPE             producer: the app in the notification
//	reconcile               the child of the last request for the work, or of a pass
//	store commit, …         client: the operation and its outcome
//	kubernetes GET, …       client, also registry and api: method, host and status
//
// Spans contain valid names, request IDs and words from fixed lists. They contain no text that a
// client chooses: no path, query, header, body, key, key prefix or token, and no error text.
//
// Requests never wait for the collector. Ended spans wait in a bounded queue. Dropped and failed
// spans are counted, and logged once until exports succeed again. A process waits at most
// [Closing] for the last export.
package span

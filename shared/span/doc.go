// Package span exports what a function does as spans of OpenTelemetry, over OTLP and HTTP,
// once a standard variable says where to: OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, or
// OTEL_EXPORTER_OTLP_ENDPOINT, to which v1/traces is added. Without one nothing is made, no
// goroutine runs, and every call here returns after a look at a pointer or a context.
//
// Spans continue the trace of the request's traceparent, which package trace takes over; one
// that is not valid begins a new trace. What is sampled is said by the parent's flag and by
// OTEL_TRACES_SAMPLER.
//
// # Spans
//
//	a route, "POST event"   server; the pattern and never the path, method, status, problem, request id
//	check                   server, of the checker: namespace, app, verdict, and a refusal's request id
//	event                   consumer, of an event in a trace other than its request's
//	notify TYPE             producer: the app that another function is told of
//	reconcile               what was asked for, or found by a pass: the child of who asked last
//	store commit, …         client: the operation and how it ended
//	kubernetes GET, …       client, and so of registry and api: method, host and status
//
// # What is in none
//
// Nothing that a client chooses freely: no path, no query, no header, no body, no key, no
// token, not even a key's prefix, and no text of an error, which may cite any of them.
// Values are names that were found valid, ids of requests, and words of closed lists.
//
// # Trouble
//
// A request never waits for the collector. Ended spans wait in a bounded queue, those that
// find it full are dropped, and those that cannot be sent are lost; both are counted, and
// logged once until it works again. The process waits [Closing] at most for the last of them.
package span

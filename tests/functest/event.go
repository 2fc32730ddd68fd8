package functest

import "net/http"

// Event returns the call that delivers a CloudEvent. Without a subject, subject is "".
func Event(kind, subject string) Call {
	header := http.Header{"Ce-Specversion": {"1.0"}, "Ce-Id": {"1"}, "Ce-Source": {"/test"}, "Ce-Type": {kind}}
	if subject != "" {
		header.Set("Ce-Subject", subject)
	}
	return Call{Method: http.MethodPost, Path: "/", Header: header}
}

// Bearer returns the header that authenticates a call with a token.
func Bearer(token string) http.Header { return http.Header{"Authorization": {"Bearer " + token}} }

// Package wire holds the JSON shapes of the management API: what goes over the
// wire and nothing else (promise A1). Times are RFC 3339 in UTC. Every
// field of an answer is always there, null where there is nothing to say. Request fields that may be left out are pointers, or Optional where
// leaving a field out and setting it to null differ.
package wire

// Error is every error answer (promise A2).
type Error struct {
	Code    string `json:"code"`    // stable, for programs
	Message string `json:"message"` // for people; may change

	Errors []FieldError `json:"errors,omitempty"` // every wrong field of the request, the first one's code and message being the error's own; left out where it is about none
}

// FieldError is what is wrong with one field of a request.
type FieldError struct {
	Field   string `json:"field"`   // as the request names it, e.g. rate, git_source.branch or members[1].role
	Code    string `json:"code"`    // stable, for programs
	Message string `json:"message"` // for people; may change
}

// Problem is an error answer to those who accept application/problem+json (RFC 9457).
type Problem struct {
	Error

	Type   string `json:"type"`   // always about:blank: the code is what tells problems apart
	Title  string `json:"title"`  // the status in words
	Status int    `json:"status"` // of the answer
	Detail string `json:"detail"` // the message
}

// List is one page of a list; NextPageToken is "" on the last.
type List[T any] struct {
	Items         []T    `json:"items"`
	NextPageToken string `json:"next_page_token"` // page_token of the next page; "" on the last
}

// ListOf is a page of what show makes of things.
func ListOf[T, W any](things []T, next string, show func(T) W) List[W] {
	list := List[W]{Items: make([]W, len(things)), NextPageToken: next}
	for i, t := range things {
		list.Items[i] = show(t)
	}
	return list
}

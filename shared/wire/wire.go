// Package wire defines the JSON types of the management API (promise A1).
//
// Times are RFC 3339 in UTC. Responses always contain all fields, with null for a missing value.
// Optional request fields are pointers, or [Optional] if absent and null differ.
//
// The doc comments of types and the comments after fields are the descriptions in the OpenAPI
// document.
package wire

// Error is the body of every error response (promise A2).
type Error struct {
	Code    string `json:"code"`    // stable code for programs
	Message string `json:"message"` // message for people; may change

	Errors []FieldError `json:"errors,omitempty"` // invalid fields of the request; code and message are those of the first field; absent if no field is invalid
}

// FieldError is a problem with a field of a request.
type FieldError struct {
	Field   string `json:"field"` // path of the field, e.g. rate, git_source.branch or members[1].role
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Problem is the error response for clients that accept application/problem+json (RFC 9457).
type Problem struct {
	Error

	Type   string `json:"type"`   // always about:blank; code identifies the problem
	Title  string `json:"title"`  // text of the HTTP status
	Status int    `json:"status"` // HTTP status of the response
	Detail string `json:"detail"` // same as message
}

// List is a page of a list.
type List[T any] struct {
	Items         []T    `json:"items"`
	NextPageToken string `json:"next_page_token"` // page_token of the next page; "" on the last page
}

// Page returns the items and the token of the next page.
func (l List[T]) Page() (items []T, next string) { return l.Items, l.NextPageToken }

// ListOf returns a page with the result of show for each of things.
func ListOf[T, W any](things []T, next string, show func(T) W) List[W] {
	list := List[W]{Items: make([]W, len(things)), NextPageToken: next}
	for i, t := range things {
		list.Items[i] = show(t)
	}
	return list
}

package wire

import "time"

// ExplainedRequest contains the stored denials of requests with the same ID.
type ExplainedRequest struct {
	RequestID string   `json:"request_id" kind:"request_id"`
	Denials   []Denial `json:"denials"`                // denials, newest first; several requests can have the same ID
	Asked     int      `json:"asked" kind:"number"`    // number of checkers queried
	Answered  int      `json:"answered" kind:"number"` // number of checkers that responded; the denials of the others are missing
}

// Denial is a denied request. The key is null unless it belongs to the project.
type Denial struct {
	At          time.Time `json:"at"`
	Code        string    `json:"code"`        // problem code that the client received
	Reason      string    `json:"reason"`      // stable reason code, never sent to the client
	Explanation string    `json:"explanation"` // explanation of the reason and the fix; may change
	Environment string    `json:"environment" kind:"environment"`
	App         string    `json:"app" kind:"app"`
	KeyID       *string   `json:"key_id" kind:"key_id"`
	KeyPrefix   *string   `json:"key_prefix" kind:"prefix"`
	KeyName     Text      `json:"key_name" kind:"key_name"` // name of the key; null without a key or for an unnamed key
	Method      string    `json:"method"`                   // method as the client sent it, at most 16 bytes
	Replica     string    `json:"replica"`                  // checker that denied the request
}

package wire

import "time"

// ExplainedRequest says why requests with an id were refused, as far as checkers remember.
type ExplainedRequest struct {
	RequestID string   `json:"request_id" kind:"request_id"`
	Denials   []Denial `json:"denials"`                // newest first; a client can give several requests one id
	Asked     int      `json:"asked" kind:"number"`    // checkers that there are
	Answered  int      `json:"answered" kind:"number"` // of these, those that did; what others remember is not here
}

// Denial is a request that the gate has refused. The key is null unless it is the project's.
type Denial struct {
	At          time.Time `json:"at"`
	Code        string    `json:"code"`        // what the client was told
	Reason      string    `json:"reason"`      // the true one, stable, for programs
	Explanation string    `json:"explanation"` // the reason in words, and what to do; may change
	Environment string    `json:"environment" kind:"environment"`
	App         string    `json:"app" kind:"app"`
	KeyID       *string   `json:"key_id" kind:"key_id"`
	KeyPrefix   *string   `json:"key_prefix" kind:"prefix"`
	KeyName     Text      `json:"key_name" kind:"key_name"` // null without a key, and of a key without a name
	Method      string    `json:"method"`                   // of the request, as its client wrote it; 16 bytes at most
	Replica     string    `json:"replica"`                  // the checker that refused it
}

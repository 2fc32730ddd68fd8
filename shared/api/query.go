package api

// Page sizes of lists.
const (
	DefaultPageSize = 50
	MaxPageSize     = 500
)

// Page is the part of a list that a client asks for. A token is checked by the store,
// which made it. Problem: invalid_page.
type Page struct {
	Size  int    `query:"page_size" kind:"page_size"` // items in the answer, at most
	Token string `query:"page_token"`                 // next_page_token of the page before; none asks for the first page
}

// KeysOf narrows a list of an environment's keys.
type KeysOf struct {
	Page
	Plan string `query:"plan" kind:"plan_id"` // only keys of this plan
}

// KeysIn narrows a list of a project's keys.
type KeysIn struct {
	KeysOf
	Environment string `query:"environment" kind:"environment"` // only keys of this environment
}

// Window is the days of a usage report, both inclusive. nil was not asked for.
type Window struct {
	From *string `query:"from" kind:"day"` // first UTC day; 29 days before to if left out
	To   *string `query:"to" kind:"day"`   // last UTC day; today if left out
}

// Audit narrows a list of audit records.
type Audit struct {
	Page
	From     string `query:"from" kind:"instant"`      // RFC 3339 time or UTC day, inclusive
	To       string `query:"to" kind:"instant"`        // RFC 3339 time or UTC day, inclusive
	Actor    string `query:"actor"`                    // who made the change, exactly
	Action   string `query:"action"`                   // what was done, exactly
	Resource string `query:"resource" kind:"resource"` // a resource; all below it is found too
}

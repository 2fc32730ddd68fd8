package api

// Page sizes of lists.
const (
	DefaultPageSize = 50
	MaxPageSize     = 500
)

// Page is the part of a list that a client asks for. A token is checked by the store,
// which made it. Problem: invalid_page.
type Page struct {
	Size  int    `query:"page_size" minimum:"1" maximum:"500" default:"50" description:"Items in the answer, at most."`
	Token string `query:"page_token" description:"next_page_token of the page before; none asks for the first page."`
}

// KeysOf narrows a list of an environment's keys.
type KeysOf struct {
	Page
	Plan string `query:"plan" description:"Only keys of this plan's id." example:"plan-starter"`
}

// KeysIn narrows a list of a project's keys.
type KeysIn struct {
	KeysOf
	Environment string `query:"environment" description:"Only keys of this environment."`
}

// Window is the days of a usage report, both inclusive. nil was not asked for.
type Window struct {
	From *string `query:"from" format:"date" description:"First UTC day; 29 days before to if left out."`
	To   *string `query:"to" format:"date" description:"Last UTC day; today if left out."`
}

// Audit narrows a list of audit records.
type Audit struct {
	Page
	From     string `query:"from" description:"RFC 3339 time or UTC day, inclusive."`
	To       string `query:"to" description:"RFC 3339 time or UTC day, inclusive."`
	Actor    string `query:"actor" description:"Who made the change, exactly."`
	Action   string `query:"action" description:"What was done, exactly." example:"key.revoke"`
	Resource string `query:"resource" description:"A resource; all below it is found too." example:"projects/shop/environments/prod"`
}

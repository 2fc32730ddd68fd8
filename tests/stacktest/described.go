package stacktest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"
	"github.com/pb33f/libopenapi-validator/config"
	"github.com/pb33f/libopenapi-validator/errors"
	v3 "github.com/pb33f/libopenapi/datamodel/high/v3"

	"github.com/sluicegate/sluice/shared/api"
)

// described is that of the package's stack: a process has one, as it has one
// http.DefaultTransport. There is none until the stack has started, and in benchmarks.
var described atomic.Pointer[description]

// Described is a transport that holds what goes over it to the API against its
// description.
func Described(t http.RoundTripper) http.RoundTripper { return describedTransport{&described, t} }

// description holds what tests see of the API against its OpenAPI description: each
// answer, and each request that succeeded. What differs fails the package in the end.
type description struct {
	base      *url.URL
	rows      *http.ServeMux // of the table, as the functions have them
	paths     map[string]*v3.PathItem
	validator validator.Validator

	mu   sync.Mutex
	seen int
	lies map[string]string // an example, by what is wrong
}

// maxLies bounds what is told.
const maxLies = 50

// describe reads the description of the API at base.
func describe(base string) (*description, error) {
	document, err := exact(api.OpenAPI)
	if err != nil {
		return nil, err
	}
	model, err := document.BuildV3Model()
	if err != nil {
		return nil, fmt.Errorf("read the description: %w", err)
	}
	made, errs := validator.NewValidator(document, config.WithoutSecurityValidation(), config.WithFormatAssertions())
	if len(errs) != 0 {
		return nil, fmt.Errorf("read the description: %v", errs)
	}
	d := &description{rows: http.NewServeMux(), paths: map[string]*v3.PathItem{}, validator: made, lies: map[string]string{}}
	if d.base, err = url.Parse(base); err != nil {
		return nil, err
	}
	for _, row := range api.Table() {
		d.rows.HandleFunc(row.Pattern(), func(http.ResponseWriter, *http.Request) {})
		d.paths[row.Path] = model.Model.Paths.PathItems.GetOrZero(row.Path)
	}
	return d, nil
}

// probe makes sure that what goes to the API over http.DefaultTransport is held against the
// description: it would not be missed.
func (d *description) probe(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.base.JoinPath(api.GetDescription.Path).String(), nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	if err := res.Body.Close(); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.seen == 0 {
		return fmt.Errorf("the API's answer %s was not held against its description", res.Status)
	}
	return nil
}

// exact is a description of which answers have the fields that are told and no others.
// Clients are told less, so that fields can come.
func exact(description []byte) (libopenapi.Document, error) {
	var d map[string]any
	if err := json.Unmarshal(description, &d); err != nil {
		return nil, err
	}
	schemas := d["components"].(map[string]any)["schemas"].(map[string]any) //nolint:forcetypeassert // it is generated
	for name, schema := range schemas {
		if name != "Error" && name != "WebhookCall" { // the one is completed where it stands, the other ignores what it does not know
			schema.(map[string]any)["additionalProperties"] = false //nolint:forcetypeassert // it is generated
		}
	}
	b, err := json.Marshal(d)
	if err != nil {
		return nil, err
	}
	return libopenapi.NewDocument(b)
}

type describedTransport struct {
	description *atomic.Pointer[description]
	next        http.RoundTripper
}

// RoundTrip sends a request.
func (t describedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	d := t.description.Load()
	if d == nil || !d.concerns(r) {
		return t.next.RoundTrip(r)
	}
	r = r.Clone(r.Context())
	var sent []byte
	whole := r.ContentLength >= 0 && r.ContentLength <= maxHeld
	if whole {
		var err error
		if sent, _, err = read(&r.Body); err != nil {
			return nil, err
		}
	}
	res, err := t.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	got, complete, err := read(&res.Body)
	if err != nil || !complete || !whole && res.StatusCode < http.StatusMultipleChoices {
		return res, nil //nolint:nilerr // whoever reads it is told
	}
	d.hold(r, sent, res, got)
	return res, nil
}

// maxHeld bounds bodies that are held against the description, in bytes. Attackers'
// have no end.
const maxHeld = 2 << 20

// concerns tells whether a request is one to the API. It may reach it by its address.
func (d *description) concerns(r *http.Request) bool {
	host := r.Host
	if host == "" {
		host = r.URL.Host
	}
	return strings.EqualFold(strings.Split(host, ":")[0], d.base.Hostname()) && strings.HasPrefix(r.URL.Path, api.Base+"/")
}

// read reads a body of at most maxHeld bytes, and puts back what it has read.
func read(body *io.ReadCloser) (got []byte, complete bool, err error) {
	if *body == nil || *body == http.NoBody {
		return nil, true, nil
	}
	got, err = io.ReadAll(io.LimitReader(*body, maxHeld+1))
	rest := io.Reader(*body)
	if err != nil {
		rest = failing{err}
	}
	*body = putBack{io.MultiReader(bytes.NewReader(got), rest), *body}
	return got, len(got) <= maxHeld, err
}

// putBack reads what was read before, and closes the body that it was read from.
type putBack struct {
	io.Reader
	io.Closer
}

// failing fails to be read.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// hold holds an answer, and the request if it succeeded, against the description.
func (d *description) hold(r *http.Request, sent []byte, res *http.Response, got []byte) {
	request := r.Clone(r.Context())
	request.Body = io.NopCloser(bytes.NewReader(sent))
	answer := *res
	answer.Body = io.NopCloser(bytes.NewReader(got))
	if res.StatusCode >= http.StatusInternalServerError && res.Header.Get("X-Request-Id") == "" {
		return // the proxy's own: no function was there to answer
	}
	if res.Header.Get("X-Request-Id") == "" {
		d.lie(r, res, got, "no X-Request-Id")
	}
	_, pattern := d.rows.Handler(r)
	_, path, _ := strings.Cut(pattern, " ")
	item := d.paths[path]
	if item == nil { // no route
		if res.StatusCode != http.StatusNotFound && res.StatusCode != http.StatusMethodNotAllowed {
			d.lie(r, res, got, "no such route, but no such answer either")
		}
		return
	}
	var wrong []*errors.ValidationError
	if res.StatusCode < http.StatusMultipleChoices && !foreign(r, path) {
		_, more := d.validator.ValidateHttpRequestSyncWithPathItem(request, item, path)
		wrong = append(wrong, more...)
	}
	_, more := d.validator.GetResponseBodyValidator().ValidateResponseBodyWithPathItem(request, &answer, item, path)
	for _, w := range append(wrong, more...) {
		detail := w.Message + ": " + w.Reason
		for _, s := range w.SchemaValidationErrors {
			detail += "; " + s.FieldPath + " " + s.Reason
		}
		d.lie(r, res, append(append(sent, " -> "...), got...), pattern+" "+res.Status+": "+detail)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen++
}

// foreign tells whether a request is an event of a git provider, whose body is the
// provider's own.
func foreign(r *http.Request, path string) bool {
	return path == api.CallWebhook.Path && r.Header.Get("X-GitHub-Event") != ""
}

func (d *description) lie(r *http.Request, res *http.Response, example []byte, what string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.lies) < maxLies {
		d.lies[what] = fmt.Sprintf("%s %s %s %.600s", r.Method, r.URL, res.Status, example)
	}
}

// tell says what was wrong, and how much was seen.
func (d *description) tell() (ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	fmt.Fprintf(os.Stderr, "%d requests and their answers were held against the API's description, and differ from it in %d ways\n", d.seen, len(d.lies))
	for what, example := range d.lies {
		fmt.Fprintf(os.Stderr, "not as described: %s\n\te.g. %s\n", what, example)
	}
	return len(d.lies) == 0
}

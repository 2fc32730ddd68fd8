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

// described is per process, like http.DefaultTransport. It is nil before the stack has started
// and in benchmarks.
var described atomic.Pointer[description]

// Described returns a transport that checks calls of the API against its description.
func Described(t http.RoundTripper) http.RoundTripper { return describedTransport{&described, t} }

// description checks each response, and each successful request, against the OpenAPI
// description. A difference fails the package.
type description struct {
	base      *url.URL
	rows      *http.ServeMux
	paths     map[string]*v3.PathItem
	validator validator.Validator

	mu          sync.Mutex
	checked     int
	differences map[string]string
}

const maxDifferences = 50

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
	d := &description{rows: http.NewServeMux(), paths: map[string]*v3.PathItem{}, validator: made, differences: map[string]string{}}
	if d.base, err = url.Parse(base); err != nil {
		return nil, err
	}
	for _, row := range api.Table() {
		d.rows.HandleFunc(row.Pattern(), func(http.ResponseWriter, *http.Request) {})
		d.paths[row.Path] = model.Model.Paths.PathItems.GetOrZero(row.Path)
	}
	return d, nil
}

// probe checks that the transport is in use. Tests would not notice otherwise.
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
	if d.checked == 0 {
		return fmt.Errorf("the API's response %s was not checked against its description", res.Status)
	}
	return nil
}

// exact forbids additional fields in responses. Clients must tolerate them.
func exact(description []byte) (libopenapi.Document, error) {
	var d map[string]any
	if err := json.Unmarshal(description, &d); err != nil {
		return nil, err
	}
	schemas := d["components"].(map[string]any)["schemas"].(map[string]any) //nolint:forcetypeassert // the description is generated
	for name, schema := range schemas {
		if name != "Error" && name != "WebhookCall" { // Error is extended; WebhookCall ignores unknown fields
			schema.(map[string]any)["additionalProperties"] = false //nolint:forcetypeassert // the description is generated
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

func (t describedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	d := t.description.Load()
	if d == nil || !d.concerns(r) {
		return t.next.RoundTrip(r)
	}
	r = r.Clone(r.Context())
	var sent []byte
	whole := r.ContentLength >= 0 && r.ContentLength <= maxBody
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
		return res, nil //nolint:nilerr // the reader of the body gets the error
	}
	d.check(r, sent, res, got)
	return res, nil
}

// maxBody is in bytes. Attack tests send unlimited bodies.
const maxBody = 2 << 20

// concerns reports whether a request is a call of the API.
func (d *description) concerns(r *http.Request) bool {
	host := r.Host
	if host == "" {
		host = r.URL.Host
	}
	return strings.EqualFold(strings.Split(host, ":")[0], d.base.Hostname()) && strings.HasPrefix(r.URL.Path, api.Base+"/")
}

func read(body *io.ReadCloser) (got []byte, complete bool, err error) {
	if *body == nil || *body == http.NoBody {
		return nil, true, nil
	}
	got, err = io.ReadAll(io.LimitReader(*body, maxBody+1))
	rest := io.Reader(*body)
	if err != nil {
		rest = failing{err}
	}
	*body = putBack{io.MultiReader(bytes.NewReader(got), rest), *body}
	return got, len(got) <= maxBody, err
}

// putBack is a restored body.
type putBack struct {
	io.Reader
	io.Closer
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// check checks a response, and a successful request.
func (d *description) check(r *http.Request, sent []byte, res *http.Response, got []byte) {
	request := r.Clone(r.Context())
	request.Body = io.NopCloser(bytes.NewReader(sent))
	response := *res
	response.Body = io.NopCloser(bytes.NewReader(got))
	if res.StatusCode >= http.StatusInternalServerError && res.Header.Get("X-Request-Id") == "" {
		return // the proxy's own response
	}
	if res.Header.Get("X-Request-Id") == "" {
		d.report(r, res, got, "no X-Request-Id")
	}
	_, pattern := d.rows.Handler(r)
	_, path, _ := strings.Cut(pattern, " ")
	item := d.paths[path]
	if item == nil {
		if res.StatusCode != http.StatusNotFound && res.StatusCode != http.StatusMethodNotAllowed {
			d.report(r, res, got, "unknown route, but neither 404 nor 405")
		}
		return
	}
	var wrong []*errors.ValidationError
	if res.StatusCode < http.StatusMultipleChoices && !foreign(r, path) {
		_, more := d.validator.ValidateHttpRequestSyncWithPathItem(request, item, path)
		wrong = append(wrong, more...)
	}
	_, more := d.validator.GetResponseBodyValidator().ValidateResponseBodyWithPathItem(request, &response, item, path)
	for _, w := range append(wrong, more...) {
		detail := w.Message + ": " + w.Reason
		for _, s := range w.SchemaValidationErrors {
			detail += "; " + s.FieldPath + " " + s.Reason
		}
		d.report(r, res, append(append(sent, " -> "...), got...), pattern+" "+res.Status+": "+detail)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.checked++
}

// foreign reports whether a git provider defines the body.
func foreign(r *http.Request, path string) bool {
	return path == api.CallWebhook.Path && r.Header.Get("X-GitHub-Event") != ""
}

func (d *description) report(r *http.Request, res *http.Response, example []byte, what string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.differences) < maxDifferences {
		d.differences[what] = fmt.Sprintf("%s %s %s %.600s", r.Method, r.URL, res.Status, example)
	}
}

// summarize returns false if there are differences.
func (d *description) summarize() (ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	fmt.Fprintf(os.Stderr, "%d calls were checked against the API's description: %d differences\n", d.checked, len(d.differences))
	for what, example := range d.differences {
		fmt.Fprintf(os.Stderr, "differs from the description: %s\n\te.g. %s\n", what, example)
	}
	return len(d.differences) == 0
}

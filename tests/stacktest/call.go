package stacktest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sluicegate/sluice/shared/wire"
)

// Call is a request to an app through the ingress.
type Call struct {
	site   *Site
	method string
	host   string
	path   string
	header http.Header
	body   []byte
	within time.Duration
}

// Answer is a response with its complete body.
type Answer struct {
	Status int
	Header http.Header
	Body   string
}

// Echo is the response of the echo app.
type Echo struct {
	App       string              `json:"app"`
	Namespace string              `json:"namespace"`
	Image     string              `json:"image"`
	Revision  string              `json:"revision"`
	Method    string              `json:"method"`
	Path      string              `json:"path"`
	Headers   map[string][]string `json:"headers"`
	BodyBytes int64               `json:"body_bytes"`
	Trailers  map[string][]string `json:"trailers"`
}

// Call returns a GET request for an app's "/".
func (s *Site) Call(app string) *Call {
	return &Call{site: s, method: http.MethodGet, host: s.Host(app), path: "/", header: http.Header{}}
}

// Key adds the key header.
func (c *Call) Key(k Key) *Call { return c.Header("X-API-Key", k.Full) }

// Header adds a header with its name as written.
func (c *Call) Header(name, value string) *Call {
	c.header[name] = append(c.header[name], value)
	return c
}

// Method sets the method.
func (c *Call) Method(m string) *Call { c.method = m; return c }

// Path sets the path and query.
func (c *Call) Path(p string) *Call { c.path = p; return c }

// Body sets the body.
func (c *Call) Body(b []byte) *Call { c.body = b; return c }

// Within makes [Call.Gets] retry.
func (c *Call) Within(d time.Duration) *Call { c.within = d; return c }

// Send sends the request once.
func (c *Call) Send() Answer {
	c.site.T.Helper()
	a, err := c.Try(c.site.T.Context())
	c.site.must(err)
	return a
}

// Try is Send with an error instead of a failed test.
func (c *Call) Try(ctx context.Context) (Answer, error) {
	req, err := http.NewRequestWithContext(ctx, c.method, "http://"+c.host+c.path, bytes.NewReader(c.body))
	if err != nil {
		return Answer{}, err
	}
	req.Header = c.header.Clone()
	return Do(c.site.ingress, req)
}

// Do sends a request and reads the complete response. It returns an incomplete body together
// with the error.
func Do(client *http.Client, req *http.Request) (Answer, error) {
	res, err := client.Do(req)
	if err != nil {
		return Answer{}, err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	return Answer{Status: res.StatusCode, Header: res.Header, Body: string(body)}, err
}

// AddHeaders adds pairs of names and values.
func AddHeaders(req *http.Request, pairs ...string) {
	for i := 0; i < len(pairs); i += 2 {
		req.Header.Add(pairs[i], pairs[i+1])
	}
}

// AtKnative calls an app through Knative's public gateway and returns the status.
func (s *Site) AtKnative(app string) int {
	s.T.Helper()
	namespace, name := "knative-serving", "knative-ingress-gateway"
	if Elsewhere() {
		namespace, name = "kourier-system", "kourier"
	}
	gateway, err := Kubernetes(s.T, s.Stack).CoreV1().Services(namespace).Get(s.T.Context(), name, metav1.GetOptions{})
	s.must(err)
	url := fmt.Sprintf("http://%s:%d/", gateway.Spec.ClusterIP, gateway.Spec.Ports[0].Port)
	req, err := http.NewRequestWithContext(s.T.Context(), http.MethodGet, url, http.NoBody)
	s.must(err)
	req.Host = app + "." + s.Project + "-" + s.Env + ".knative.example.com"
	res, err := http.DefaultClient.Do(req)
	s.must(err)
	s.must(res.Body.Close())
	return res.StatusCode
}

// Gets checks the status and, if given, the denial code.
func (c *Call) Gets(status int, code ...string) Answer {
	c.site.T.Helper()
	want := ""
	if len(code) > 0 {
		want = code[0]
	}
	deadline := time.Now().Add(c.within)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		a := c.Send()
		if a.Status == status && (want == "" || a.Code() == want) {
			return a
		}
		if time.Now().After(deadline) {
			c.site.T.Fatalf("%s %s%s: got %d %s, want %d %s", c.method, c.host, c.path, a.Status, strings.TrimSpace(a.Body), status, want)
		}
		<-tick.C
	}
}

// Code returns the code of a denial, or "".
func (a Answer) Code() string {
	var e wire.Error
	if json.Unmarshal([]byte(a.Body), &e) != nil {
		return ""
	}
	return e.Code
}

// Echo decodes a response.
func (s *Site) Echo(a Answer) Echo {
	s.T.Helper()
	var e Echo
	if err := json.Unmarshal([]byte(a.Body), &e); err != nil {
		s.T.Fatalf("decode the backend's response: %v: %.200s", err, a.Body)
	}
	return e
}

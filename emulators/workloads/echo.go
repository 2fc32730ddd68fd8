package workloads

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/coder/websocket"
)

// Limits of /stream.
const (
	defaultChunks   = 3
	maxChunks       = 10_000
	defaultInterval = 50 * time.Millisecond
	maxInterval     = 10 * time.Second
)

// Echo is what the backend answers.
type Echo struct {
	App       string              `json:"app"` // name of the Deployment
	Namespace string              `json:"namespace"`
	Image     string              `json:"image"`    // that serves now, e.g. "registry.example/hello:v1"
	Revision  string              `json:"revision"` // annotation sluice.dev/revision of its pod template, "" without one
	Method    string              `json:"method"`
	Path      string              `json:"path"`       // with the query, as sent
	Headers   map[string][]string `json:"headers"`    // names and values as sent, Host among them
	BodyBytes int64               `json:"body_bytes"` // length of the request's body
	Trailers  map[string][]string `json:"trailers,omitempty"`
}

// errNobody says that nothing serves a request's host.
var errNobody = errors.New("no app is called so")

// echo is the app that every image holds:
//
//	/ws           echoes WebSocket messages
//	/stream       answers ?chunks=3 flushed chunks, ?interval=50ms apart
//	/status/{n}   answers with that status, 200 to 599
//	all else      answers an Echo
//
// Every path takes up an upgrade to HTTP/2 (see upgradable).
type echo struct {
	current func(r *http.Request) (Pod, bool) // what serves a request now; false for nothing
	log     *slog.Logger
}

func (e *echo) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/ws", e.socket)
	mux.HandleFunc("/stream", e.read(e.stream))
	mux.HandleFunc("/status/{code}", e.read(e.status))
	return e.upgradable(plainPaths(mux, e.read(e.plain)))
}

// plainPaths keeps the mux from redirecting paths that it would rather see
// cleaned: a backend shows what it got.
func plainPaths(mux *http.ServeMux, other http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, pattern := mux.Handler(r); pattern == "" || r.Method == http.MethodConnect {
			other(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// read takes the whole request in before h answers.
func (e *echo) read(h func(http.ResponseWriter, *http.Request, Echo)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		seen, err := e.see(r)
		if errors.Is(err, errNobody) {
			http.NotFound(w, r)
			return
		}
		if err != nil {
			e.log.Debug("request not read", "error", err)
			w.Header().Set("Connection", "close")
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		h(w, r, seen)
	}
}

// see reads a request to its end.
func (e *echo) see(r *http.Request) (Echo, error) {
	pod, ok := e.current(r)
	if !ok {
		return Echo{}, errNobody
	}
	headers, next, err := asSent(r)
	if err != nil {
		return Echo{}, err
	}
	n, err := io.Copy(io.Discard, r.Body)
	if err != nil {
		return Echo{}, fmt.Errorf("read the body: %w", err)
	}
	next()
	return Echo{
		App: pod.App, Namespace: pod.Namespace, Image: pod.Image, Revision: pod.Revision,
		Method: r.Method, Path: r.RequestURI, Headers: headers, BodyBytes: n, Trailers: r.Trailer,
	}, nil
}

// asSent gives a request's headers as they came, and what to call once its body was
// read.
func asSent(r *http.Request) (headers map[string][]string, next func(), err error) {
	if r.ProtoMajor == 2 {
		return fields(r), func() {}, nil
	}
	t, ok := tapOf(r)
	if !ok {
		return nil, nil, errors.New("the connection is not recorded")
	}
	headers, err = t.headers(r)
	return headers, t.next, err
}

func (e *echo) answer(w http.ResponseWriter, status int, seen Echo) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(seen); err != nil && !errors.Is(err, http.ErrBodyNotAllowed) {
		e.log.Debug("answer not sent", "error", err)
	}
}

func (e *echo) plain(w http.ResponseWriter, _ *http.Request, seen Echo) {
	e.answer(w, http.StatusOK, seen)
}

func (e *echo) status(w http.ResponseWriter, r *http.Request, seen Echo) {
	code, err := strconv.Atoi(r.PathValue("code"))
	if err != nil || code < 200 || code > 599 {
		code = http.StatusBadRequest
	}
	e.answer(w, code, seen)
}

func (e *echo) stream(w http.ResponseWriter, r *http.Request, _ Echo) {
	chunks, err := strconv.Atoi(r.FormValue("chunks"))
	if err != nil || chunks < 0 || chunks > maxChunks {
		chunks = defaultChunks
	}
	interval, err := time.ParseDuration(r.FormValue("interval"))
	if err != nil || interval <= 0 || interval > maxInterval {
		interval = defaultInterval
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	out := http.NewResponseController(w)
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for i := range chunks {
		if i > 0 {
			select {
			case <-r.Context().Done():
				return
			case <-tick.C:
			}
		}
		if _, err := fmt.Fprintf(w, "chunk %d\n", i+1); err != nil {
			return // the client is gone
		}
		if err := out.Flush(); err != nil {
			return
		}
	}
}

// socket sends every message back until the client closes.
func (e *echo) socket(w http.ResponseWriter, r *http.Request) {
	if _, err := e.see(r); err != nil { // a refused upgrade leaves the connection to other requests
		http.NotFound(w, r)
		return
	}
	c, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true}) // any page may talk to an echo
	if err != nil {
		e.log.Debug("no web socket", "error", err)
		return
	}
	defer c.CloseNow() //nolint:errcheck // closed already when all went well
	for {
		kind, message, err := c.Read(r.Context())
		if err != nil {
			return // closed, or gone
		}
		if err := c.Write(r.Context(), kind, message); err != nil {
			return
		}
	}
}

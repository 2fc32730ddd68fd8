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

// Limits of the path /stream.
const (
	defaultChunks   = 3
	maxChunks       = 10_000
	defaultInterval = 50 * time.Millisecond
	maxInterval     = 10 * time.Second
)

// Echo is a backend's response: the request as received.
type Echo struct {
	App       string              `json:"app"` // Deployment
	Namespace string              `json:"namespace"`
	Image     string              `json:"image"`    // e.g. "registry.example/hello:v1"
	Revision  string              `json:"revision"` // annotation sluice.dev/revision; may be ""
	Method    string              `json:"method"`
	Path      string              `json:"path"`    // with the query
	Headers   map[string][]string `json:"headers"` // as sent, including Host
	BodyBytes int64               `json:"body_bytes"`
	Trailers  map[string][]string `json:"trailers,omitempty"`
}

var errNoApp = errors.New("no app with this host")

// echo is the app in every image:
//
//	/ws           echoes WebSocket messages
//	/stream       returns ?chunks=3 flushed chunks, ?interval=50ms apart
//	/status/{n}   returns that status, 200 to 599
//	other paths   return an Echo
type echo struct {
	current func(r *http.Request) (Pod, bool) // false without a pod
	log     *slog.Logger
}

func (e *echo) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/ws", e.socket)
	mux.HandleFunc("/stream", e.read(e.stream))
	mux.HandleFunc("/status/{code}", e.read(e.status))
	return e.upgradable(plainPaths(mux, e.read(e.plain)))
}

// plainPaths prevents the mux's redirects to cleaned paths.
func plainPaths(mux *http.ServeMux, other http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, pattern := mux.Handler(r); pattern == "" || r.Method == http.MethodConnect {
			other(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

func (e *echo) read(h func(http.ResponseWriter, *http.Request, Echo)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		seen, err := e.receive(r)
		if errors.Is(err, errNoApp) {
			http.NotFound(w, r)
			return
		}
		if err != nil {
			e.log.Debug("read request failed", "error", err)
			w.Header().Set("Connection", "close")
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		h(w, r, seen)
	}
}

func (e *echo) receive(r *http.Request) (Echo, error) {
	pod, ok := e.current(r)
	if !ok {
		return Echo{}, errNoApp
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

// asSent returns the headers as received, and a function to call after the body.
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

func (e *echo) respond(w http.ResponseWriter, status int, seen Echo) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(seen); err != nil && !errors.Is(err, http.ErrBodyNotAllowed) {
		e.log.Debug("send response failed", "error", err)
	}
}

func (e *echo) plain(w http.ResponseWriter, _ *http.Request, seen Echo) {
	e.respond(w, http.StatusOK, seen)
}

func (e *echo) status(w http.ResponseWriter, r *http.Request, seen Echo) {
	code, err := strconv.Atoi(r.PathValue("code"))
	if err != nil || code < 200 || code > 599 {
		code = http.StatusBadRequest
	}
	e.respond(w, code, seen)
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
			return
		}
		if err := out.Flush(); err != nil {
			return
		}
	}
}

func (e *echo) socket(w http.ResponseWriter, r *http.Request) {
	if _, err := e.receive(r); err != nil { // leaves the connection usable
		http.NotFound(w, r)
		return
	}
	c, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true}) // an echo is safe for any origin
	if err != nil {
		e.log.Debug("accept WebSocket failed", "error", err)
		return
	}
	defer c.CloseNow() //nolint:errcheck // already closed on success
	for {
		kind, message, err := c.Read(r.Context())
		if err != nil {
			return
		}
		if err := c.Write(r.Context(), kind, message); err != nil {
			return
		}
	}
}

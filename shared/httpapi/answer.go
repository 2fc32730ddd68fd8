package httpapi

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/wire"
)

// WriteJSON writes v as a JSON response. It ignores write errors, which mean that the client has closed
// the connection. It returns an error if v cannot be encoded.
func WriteJSON(w http.ResponseWriter, status int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	write(w, jsonMedia, status, body)
	return nil
}

// WriteProblem writes the response for a problem, with Retry-After and WWW-Authenticate if the problem has
// them.
func WriteProblem(w http.ResponseWriter, p *problem.Error) { fail(w, nil, p) }

const problemMedia = "application/problem+json"

// fail is [WriteProblem] with problem details (RFC 9457) if the values of Accept include them.
func fail(w http.ResponseWriter, accepted []string, p *problem.Error) {
	w.Header().Del(api.ETag) // it belongs to a resource that this response does not contain
	if challenge := p.Challenge(); challenge != "" {
		w.Header().Set("WWW-Authenticate", challenge)
	}
	if s := p.RetryAfterSeconds(); s > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(s, 10))
	}
	body := wire.Error{Code: string(p.Code), Message: p.Message}
	for _, wrong := range p.FieldErrors() {
		body.Errors = append(body.Errors, wire.FieldError{Field: wrong.Field, Code: string(wrong.Code), Message: wrong.Message})
	}
	content, err := json.Marshal(body)
	media := jsonMedia
	if accepts(accepted, problemMedia) {
		media = problemMedia
		content, err = json.Marshal(wire.Problem{Type: "about:blank", Title: http.StatusText(p.Status()), Status: p.Status(), Detail: p.Message, Error: body})
	}
	if err != nil { // strings and a number always encode
		panic(err)
	}
	write(w, media, p.Status(), content)
}

func accepts(values []string, media string) bool {
	for one := range strings.SplitSeq(strings.Join(values, ","), ",") {
		kind, parameters, err := mime.ParseMediaType(one)
		if err != nil || kind != media {
			continue
		}
		q, err := strconv.ParseFloat(cmp.Or(parameters["q"], "1"), 64)
		if err == nil && q > 0 {
			return true
		}
	}
	return false
}

const jsonMedia = "application/json"

func write(w http.ResponseWriter, media string, status int, body []byte) {
	w.Header().Set("Content-Type", media)
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // an error means that the client is gone
}

// File is a constant response that is the same for all clients, plain and compressed. It must not
// contain secrets: the compressed size would reveal something about them.
type File struct {
	Tag string // hash of the content, e.g. "9f86d081884c"

	kind, cache    string
	plain, gzipped []byte
}

// NewFile returns a file with the Content-Type kind and the Cache-Control cache.
func NewFile(kind, cache string, content []byte) (File, error) {
	sum := sha256.Sum256(content)
	f := File{Tag: hex.EncodeToString(sum[:6]), kind: kind, cache: cache, plain: content}
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err == nil {
		_, err = w.Write(content)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return File{}, fmt.Errorf("compress a file of %s: %w", kind, err)
	}
	f.gzipped = b.Bytes()
	return f, nil
}

// Serve writes the file, or 304 if the client's copy is current.
func (f File) Serve(w http.ResponseWriter, r *http.Request) error {
	head, body, tag := w.Header(), f.plain, `"`+f.Tag+`"`
	packed := strings.Contains(r.Header.Get("Accept-Encoding"), "gzip")
	if packed {
		body, tag = f.gzipped, `"`+f.Tag+`-gzip"`
	}
	head.Set("Cache-Control", f.cache)
	head.Set("ETag", tag)
	head.Set("Vary", "Accept-Encoding")
	if has(r, tag) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	head.Set("Content-Type", f.kind)
	if packed {
		head.Set("Content-Encoding", "gzip")
	}
	head.Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body) // an error means that the client is gone
	return nil
}

func has(r *http.Request, tag string) bool {
	tags := strings.Split(strings.Join(r.Header.Values("If-None-Match"), ","), ",")
	return slices.ContainsFunc(tags, func(t string) bool {
		t = strings.TrimSpace(t)
		return t == "*" || strings.TrimPrefix(t, "W/") == tag
	})
}

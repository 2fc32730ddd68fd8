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

// JSON answers v as JSON with a status. It returns nil, so that a handler can
// end with it; a client that hangs up meanwhile is no error of ours.
func JSON(w http.ResponseWriter, status int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	write(w, jsonMedia, status, body)
	return nil
}

// Fail answers a problem: {"code","message"}, with "errors" where it is about fields, and,
// where it has them, Retry-After and WWW-Authenticate.
func Fail(w http.ResponseWriter, p *problem.Error) { fail(w, nil, p) }

// problemMedia is the type of a problem by RFC 9457.
const problemMedia = "application/problem+json"

// fail is Fail to whom accepts a problem by RFC 9457 if it says so.
func fail(w http.ResponseWriter, accepted []string, p *problem.Error) {
	w.Header().Del(api.ETag) // it would be of what the answer does not show
	if challenge := p.Challenge(); challenge != "" {
		w.Header().Set("WWW-Authenticate", challenge)
	}
	if s := p.RetryAfterSeconds(); s > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(s, 10))
	}
	said := wire.Error{Code: string(p.Code), Message: p.Message}
	for _, wrong := range p.Wrong() {
		said.Errors = append(said.Errors, wire.FieldError{Field: wrong.Field, Code: string(wrong.Code), Message: wrong.Message})
	}
	body, err := json.Marshal(said)
	media := jsonMedia
	if accepts(accepted, problemMedia) {
		media = problemMedia
		body, err = json.Marshal(wire.Problem{Type: "about:blank", Title: http.StatusText(p.Status()), Status: p.Status(), Detail: p.Message, Error: said})
	}
	if err != nil { // strings and a number always encode
		panic(err)
	}
	write(w, media, p.Status(), body)
}

// accepts tells whether one of the values of Accept names a type, unless with q=0.
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
	_, _ = w.Write(append(body, '\n')) // a client that has hung up is not told anything more
}

// File is an answer that is the same for everybody: made once, and sent compressed to who
// takes that. It holds no secret, whose length compression would tell about.
type File struct {
	Tag string // of the content, e.g. "9f86d081884c"

	kind, cache    string
	plain, gzipped []byte
}

// NewFile makes a file; kind is its Content-Type and cache its Cache-Control.
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

// Serve answers with the file, or with 304 to who has it already.
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
	_, _ = w.Write(body) // a client that has hung up is not told anything more
	return nil
}

// has tells whether the request says that its sender has what the tag is of.
func has(r *http.Request, tag string) bool {
	tags := strings.Split(strings.Join(r.Header.Values("If-None-Match"), ","), ",")
	return slices.ContainsFunc(tags, func(t string) bool {
		t = strings.TrimSpace(t)
		return t == "*" || strings.TrimPrefix(t, "W/") == tag
	})
}

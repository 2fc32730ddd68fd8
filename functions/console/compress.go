package console

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strings"
	"sync"
)

// minPacked is the size from which on a page is worth compressing, in bytes: what is
// smaller goes in one packet anyway.
const minPacked = 1400

// compressible tells whether the answer to a request may be compressed; see the package's
// documentation. The browser itself writes Sec-Fetch-Site, and no page can.
func compressible(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return r.Method == http.MethodGet && (site == "same-origin" || site == "none") && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip")
}

// packers are used again: one takes hundreds of kilobytes to make.
//
//nolint:gochecknoglobals // it holds room, and nothing of any page
var packers = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}

// packed is a page, compressed if that may be and is worth it; head is told how.
func packed(head http.Header, r *http.Request, page []byte) ([]byte, error) {
	head.Set("Vary", "Accept-Encoding, Sec-Fetch-Site")
	if len(page) < minPacked || !compressible(r) {
		return page, nil
	}
	w := packers.Get().(*gzip.Writer) //nolint:forcetypeassert // there is nothing else in it
	defer packers.Put(w)
	var b bytes.Buffer
	w.Reset(&b)
	_, err := w.Write(page)
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return nil, err
	}
	head.Set("Content-Encoding", "gzip")
	return b.Bytes(), nil
}

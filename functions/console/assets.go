package console

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
)

// assetFiles are the style sheet, our script, the icon, and htmx 2.0.11 as the npm
// registry has it (package htmx.org, file dist/htmx.min.js), with its licence.
//
//go:embed assets
var assetFiles embed.FS

// asset is one file, ready to be sent.
type asset struct {
	kind           string // Content-Type
	plain, gzipped []byte
}

// assets are the files by the name that they are asked for: it has a hash of the
// content, so that a browser may keep a file for good.
type assets struct {
	files map[string]asset
	names map[string]string // by the name in the folder
}

func readAssets() (assets, error) {
	a := assets{files: map[string]asset{}, names: map[string]string{}}
	entries, err := fs.ReadDir(assetFiles, "assets")
	if err != nil {
		return assets{}, fmt.Errorf("read the assets: %w", err)
	}
	for _, e := range entries {
		name := e.Name()
		kind := mime.TypeByExtension(path.Ext(name))
		if path.Ext(name) == ".LICENSE" {
			kind = "text/plain; charset=utf-8"
		}
		content, err := fs.ReadFile(assetFiles, "assets/"+name)
		if err != nil {
			return assets{}, fmt.Errorf("read asset %s: %w", name, err)
		}
		packed, err := pack(content)
		if err != nil {
			return assets{}, fmt.Errorf("compress asset %s: %w", name, err)
		}
		sum := sha256.Sum256(content)
		hashed := strings.TrimSuffix(name, path.Ext(name)) + "." + hex.EncodeToString(sum[:6]) + path.Ext(name)
		a.files[hashed] = asset{kind: kind, plain: content, gzipped: packed}
		a.names[name] = hashed
	}
	return a, nil
}

func pack(content []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(content); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// path is where a file of the folder is asked for.
func (a assets) path(name string) (string, error) {
	hashed, ok := a.names[name]
	if !ok {
		return "", fmt.Errorf("there is no asset %s", name)
	}
	return at("assets", hashed), nil
}

// serve answers with a file.
func (a assets) serve(w http.ResponseWriter, r *http.Request) error {
	f, ok := a.files[r.PathValue("name")]
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		return nil
	}
	head := w.Header()
	head.Set("Content-Type", f.kind)
	head.Set("Cache-Control", "public, max-age=31536000, immutable")
	head.Set("Vary", "Accept-Encoding")
	body := f.plain
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		head.Set("Content-Encoding", "gzip")
		body = f.gzipped
	}
	_, _ = w.Write(body) // a browser that has hung up is not told anything more
	return nil
}

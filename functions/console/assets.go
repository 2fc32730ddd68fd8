package console

import (
	"embed"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"

	"github.com/sluicegate/sluice/shared/httpapi"
)

// assetFiles are the style sheet, our script, the icon, and htmx 2.0.11 as the npm
// registry has it (package htmx.org, file dist/htmx.min.js), with its licence.
//
//go:embed assets
var assetFiles embed.FS

// assets are the files by the name that they are asked for: it has a hash of the
// content, so that a browser may keep a file for good.
type assets struct {
	files map[string]httpapi.File
	names map[string]string // by the name in the folder
}

func readAssets() (assets, error) {
	a := assets{files: map[string]httpapi.File{}, names: map[string]string{}}
	entries, err := fs.ReadDir(assetFiles, "assets")
	if err != nil {
		return assets{}, fmt.Errorf("read the assets: %w", err)
	}
	for _, e := range entries {
		name, ending := e.Name(), path.Ext(e.Name())
		kind := mime.TypeByExtension(ending)
		if ending == ".LICENSE" {
			kind = "text/plain; charset=utf-8"
		}
		content, err := fs.ReadFile(assetFiles, "assets/"+name)
		if err != nil {
			return assets{}, fmt.Errorf("read asset %s: %w", name, err)
		}
		file, err := httpapi.NewFile(kind, "public, max-age=31536000, immutable", content)
		if err != nil {
			return assets{}, fmt.Errorf("asset %s: %w", name, err)
		}
		a.names[name] = strings.TrimSuffix(name, ending) + "." + file.Tag + ending
		a.files[a.names[name]] = file
	}
	return a, nil
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
	return f.Serve(w, r)
}

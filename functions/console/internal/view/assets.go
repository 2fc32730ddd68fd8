package view

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

// assets are the files that pages load. The name in an address contains a hash of the content,
// so that a browser can cache a file forever.
type assets struct {
	files map[string]httpapi.File // by the names in addresses
	paths map[string]string       // by the names in the folder
}

func readAssets(at func(segments ...string) string) (assets, error) {
	a := assets{files: map[string]httpapi.File{}, paths: map[string]string{}}
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
		hashed := strings.TrimSuffix(name, ending) + "." + file.Tag + ending
		a.paths[name], a.files[hashed] = at("assets", hashed), file
	}
	return a, nil
}

// path returns the path of a file of the folder.
func (a assets) path(name string) (string, error) {
	p, ok := a.paths[name]
	if !ok {
		return "", fmt.Errorf("there is no asset %s", name)
	}
	return p, nil
}

// ServeAsset serves the file that the request's path value "name" names.
func (v *Renderer) ServeAsset(w http.ResponseWriter, r *http.Request) error {
	f, ok := v.assets.files[r.PathValue("name")]
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		return nil
	}
	return f.Serve(w, r)
}

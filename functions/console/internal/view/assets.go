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

// assetFiles contains htmx 2.0.11 from the npm registry (package htmx.org, dist/htmx.min.js) with
// its license, the license of the icons, and the files of the console.
//
//go:embed assets
var assetFiles embed.FS

// assets are the files that pages load. Their URLs contain a hash of the content, so that browsers
// can cache them forever.
type assets struct {
	files map[string]httpapi.File // by the name in the URL
	paths map[string]string       // by the name in the folder
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

func (a assets) path(name string) (string, error) {
	p, ok := a.paths[name]
	if !ok {
		return "", fmt.Errorf("unknown asset %s", name)
	}
	return p, nil
}

// ServeAsset serves the file with the path value "name".
func (v *Renderer) ServeAsset(w http.ResponseWriter, r *http.Request) error {
	f, ok := v.assets.files[r.PathValue("name")]
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		return nil
	}
	return f.Serve(w, r)
}

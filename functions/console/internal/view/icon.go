package view

import (
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"strings"
)

// iconFiles contains the used icons of lucide-static 1.62.0 from the npm registry. Their license is
// assets/lucide.LICENSE.
//
//go:embed icons/*.svg
var iconFiles embed.FS

// icons holds the icons by name as inline SVG, which takes the color and size of the text next to
// it. An icon has no text alternative, because it always accompanies a text.
type icons map[string]template.HTML

func readIcons() (icons, error) {
	files, err := fs.Glob(iconFiles, "icons/*.svg")
	if err != nil {
		return nil, fmt.Errorf("list the icons: %w", err)
	}
	all := icons{}
	for _, file := range files {
		text, err := fs.ReadFile(iconFiles, file)
		if err != nil {
			return nil, fmt.Errorf("read icon %s: %w", file, err)
		}
		_, svg, opened := strings.Cut(string(text), "<svg")
		_, shapes, began := strings.Cut(svg, ">")
		shapes, _, closed := strings.Cut(shapes, "</svg>")
		if !opened || !began || !closed {
			return nil, fmt.Errorf("icon %s is not an SVG", file)
		}
		name := strings.TrimSuffix(strings.TrimPrefix(file, "icons/"), ".svg")
		shapes = strings.ReplaceAll(strings.Join(strings.Fields(shapes), " "), "> <", "><")
		all[name] = template.HTML(`<svg class="icon" viewBox="0 0 24 24" aria-hidden="true">` + shapes + `</svg>`) //nolint:gosec // the file is embedded
	}
	return all, nil
}

func (all icons) icon(name string) (template.HTML, error) {
	svg, ok := all[name]
	if !ok {
		return "", fmt.Errorf("unknown icon %s", name)
	}
	return svg, nil
}

// toned returns the icon of a banner.
func (all icons) toned(tone string) (template.HTML, error) { return all.icon(toneIcon(tone)) }

func toneIcon(tone string) string {
	switch tone {
	case "good":
		return "circle-check"
	case "amber":
		return "triangle-alert"
	case "bad":
		return "circle-alert"
	}
	return "info"
}

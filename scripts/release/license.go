package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
)

// moduleLicenses returns the license of each module that the program links, as an SPDX
// expression by module path. It omits licenses that [identify] does not know.
func moduleLicenses(ctx context.Context, p program) (map[string]string, error) {
	const format = "{{with .Module}}{{.Path}}\t{{with .Replace}}{{.Dir}}{{else}}{{.Dir}}{{end}}{{end}}"
	text, err := output(ctx, "go", "list", "-deps", "-f", format, "./"+p.dir)
	if err != nil {
		return nil, err
	}
	licenses, seen := map[string]string{}, map[string]bool{}
	for line := range strings.Lines(string(text)) {
		path, dir, _ := strings.Cut(strings.TrimSpace(line), "\t")
		if dir == "" || seen[path] {
			continue
		}
		seen[path] = true
		if id := licenseIn(dir); id != "" {
			licenses[path] = id
		}
	}
	return licenses, nil
}

// licenseIn returns the license in the root folder of a module, or "" if it is unknown.
func licenseIn(dir string) string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return ""
	}
	var found []string
	for _, e := range entries {
		name := strings.ToUpper(e.Name())
		if e.IsDir() || strings.HasSuffix(name, ".DOCS") || !strings.HasPrefix(name, "LICEN") && !strings.HasPrefix(name, "COPYING") {
			continue // ".docs" files hold the license of a manual
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return ""
		}
		id := identify(text)
		if id == "" {
			return "" // an incomplete expression would be wrong
		}
		if len(found) == 0 || found[len(found)-1] != id {
			found = append(found, id)
		}
	}
	return strings.Join(found, " AND ")
}

// identify recognizes licenses by phrases that only their texts contain. It returns all
// licenses in the text, joined by AND.
func identify(text []byte) string {
	words := strings.Join(strings.Fields(strings.ToLower(string(text))), " ")
	has := func(phrase string) bool { return strings.Contains(words, phrase) }
	var found []string
	if has("apache license version 2.0") || has("apache license, version 2.0") {
		found = append(found, "Apache-2.0")
	}
	if has("permission is hereby granted, free of charge, to any person obtaining a copy") {
		found = append(found, "MIT")
	}
	if has("redistribution and use in source and binary forms") {
		if has("neither the name") || has("the names of its contributors may not be used") {
			found = append(found, "BSD-3-Clause")
		} else {
			found = append(found, "BSD-2-Clause")
		}
	}
	if has("permission to use, copy, modify, and/or distribute this software for any purpose") ||
		has("permission to use, copy, modify, and distribute this software for any purpose with or without fee") {
		found = append(found, "ISC")
	}
	if has("mozilla public license") && has("2.0") {
		found = append(found, "MPL-2.0")
	}
	return strings.Join(found, " AND ")
}

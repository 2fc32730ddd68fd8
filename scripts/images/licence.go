package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
)

// moduleLicences gives the licence of each module in a function's program as an SPDX
// expression, by module path; one whose text is not known here is left out.
func moduleLicences(ctx context.Context, function string) (map[string]string, error) {
	const format = "{{with .Module}}{{.Path}}\t{{with .Replace}}{{.Dir}}{{else}}{{.Dir}}{{end}}{{end}}"
	text, err := output(ctx, "go", "list", "-deps", "-f", format, "./functions/"+function+"/cmd")
	if err != nil {
		return nil, err
	}
	licences, seen := map[string]string{}, map[string]bool{}
	for line := range strings.Lines(string(text)) {
		path, dir, _ := strings.Cut(strings.TrimSpace(line), "\t")
		if dir == "" || seen[path] {
			continue
		}
		seen[path] = true
		if id := licenceIn(dir); id != "" {
			licences[path] = id
		}
	}
	return licences, nil
}

// licenceIn reads the licence at the root of a module; "" when none is known.
func licenceIn(dir string) string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return ""
	}
	var found []string
	for _, e := range entries {
		name := strings.ToUpper(e.Name())
		if e.IsDir() || strings.HasSuffix(name, ".DOCS") || !strings.HasPrefix(name, "LICEN") && !strings.HasPrefix(name, "COPYING") {
			continue // ".docs" is what some modules call their manuals' licence
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return ""
		}
		id := identify(text)
		if id == "" {
			return "" // half of the terms would be a wrong statement
		}
		if len(found) == 0 || found[len(found)-1] != id {
			found = append(found, id)
		}
	}
	return strings.Join(found, " AND ")
}

// identify names a licence by words that only its text has. Texts that hold more
// than one give all of them.
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

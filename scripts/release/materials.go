package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// noAssertion is SPDX's value for unknown facts.
const noAssertion = "NOASSERTION"

// spdxDocument holds the fields of an SPDX 2.3 document that Sluice uses
// (https://spdx.github.io/spdx-spec/v2.3).
type spdxDocument struct {
	SPDXID            string             `json:"SPDXID"`
	Version           string             `json:"spdxVersion"`
	DataLicense       string             `json:"dataLicense"`
	Name              string             `json:"name"`
	DocumentNamespace string             `json:"documentNamespace"`
	CreationInfo      spdxCreation       `json:"creationInfo"`
	Packages          []spdxPackage      `json:"packages"`
	Relationships     []spdxRelationship `json:"relationships"`
}

type spdxCreation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

type spdxPackage struct {
	SPDXID           string          `json:"SPDXID"`
	Name             string          `json:"name"`
	VersionInfo      string          `json:"versionInfo,omitempty"`
	DownloadLocation string          `json:"downloadLocation"`
	FilesAnalyzed    bool            `json:"filesAnalyzed"`
	LicenseConcluded string          `json:"licenseConcluded"`
	LicenseDeclared  string          `json:"licenseDeclared"`
	CopyrightText    string          `json:"copyrightText"`
	Comment          string          `json:"comment,omitempty"`
	ExternalRefs     []spdxReference `json:"externalRefs,omitempty"`
}

type spdxReference struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type spdxRelationship struct {
	Element string `json:"spdxElementId"`
	Type    string `json:"relationshipType"`
	Related string `json:"relatedSpdxElement"`
}

// linked is a program with its build information, which lists the linked modules.
type linked struct {
	program
	info *buildinfo.BuildInfo
}

// billOfMaterials returns the SPDX document of programs. The licenses are SPDX expressions by
// module path. The only time in the document is that of src.
func billOfMaterials(name string, programs []linked, licenses map[string]string, src source) ([]byte, error) {
	doc := spdxDocument{
		SPDXID: "SPDXRef-DOCUMENT", Version: "SPDX-2.3", DataLicense: "CC0-1.0", Name: name,
		CreationInfo: spdxCreation{Created: src.at.Format(time.RFC3339), Creators: []string{"Tool: sluice-release"}},
	}
	ids := map[string]string{} // of modules, by path and version
	for _, p := range programs {
		root := packageOf("SPDXRef-Program-"+p.name, module+"/"+strings.TrimSuffix(p.dir, "/cmd"), firstOf(src.release, src.version), src.license)
		doc.Packages = append(doc.Packages, root)
		doc.relate("SPDXRef-DOCUMENT", "DESCRIBES", root.SPDXID)
		for _, m := range modules(p.info) {
			id := ids[m.Path+"@"+m.Version]
			if id == "" {
				id = fmt.Sprintf("SPDXRef-Module-%d", len(ids)+1)
				ids[m.Path+"@"+m.Version] = id
				doc.Packages = append(doc.Packages, modulePackage(id, m, licenses[m.Path]))
			}
			doc.relate(root.SPDXID, "CONTAINS", id)
		}
	}
	// SPDX requires a different namespace for each document.
	content, err := json.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("encode the bill of materials: %w", err)
	}
	sum := sha256.Sum256(content)
	doc.DocumentNamespace = "https://" + module + "/spdx/" + name + "-" + hex.EncodeToString(sum[:16])
	text, err := json.MarshalIndent(doc, "", " ")
	if err != nil {
		return nil, fmt.Errorf("encode the bill of materials: %w", err)
	}
	return append(text, '\n'), nil
}

func (d *spdxDocument) relate(element, kind, related string) {
	d.Relationships = append(d.Relationships, spdxRelationship{element, kind, related})
}

func packageOf(id, name, version, license string) spdxPackage {
	return spdxPackage{
		SPDXID: id, Name: name, VersionInfo: version, DownloadLocation: noAssertion,
		LicenseConcluded: noAssertion, LicenseDeclared: firstOf(license, noAssertion), CopyrightText: noAssertion,
	}
}

// modulePackage describes a module. The standard library has no checksum and no download.
func modulePackage(id string, m *debug.Module, license string) spdxPackage {
	if m.Path == "std" {
		license = "BSD-3-Clause"
	}
	p := packageOf(id, m.Path, m.Version, license)
	p.ExternalRefs = purl("pkg:golang/" + m.Path + "@" + m.Version)
	if m.Sum != "" {
		p.DownloadLocation = "https://proxy.golang.org/" + escape(m.Path) + "/@v/" + escape(m.Version) + ".zip"
		p.Comment = "go.sum " + m.Sum
	}
	return p
}

func purl(locator string) []spdxReference {
	return []spdxReference{{Category: "PACKAGE-MANAGER", Type: "purl", Locator: locator}}
}

// merge returns build information with the modules of a and b. Different platforms can link
// different modules.
func merge(a, b *buildinfo.BuildInfo) *buildinfo.BuildInfo {
	if a == nil {
		return b
	}
	both := *a
	for _, m := range b.Deps {
		if !slices.ContainsFunc(both.Deps, func(o *debug.Module) bool { return o.Path == m.Path }) {
			both.Deps = append(slices.Clip(both.Deps), m)
		}
	}
	return &both
}

// modules returns the standard library and the linked modules, sorted by path. For a
// replaced module it returns the replacement.
func modules(info *buildinfo.BuildInfo) []*debug.Module {
	used := []*debug.Module{{Path: "std", Version: strings.TrimPrefix(info.GoVersion, "go")}}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		used = append(used, m)
	}
	slices.SortFunc(used[1:], func(a, b *debug.Module) int { return strings.Compare(a.Path, b.Path) })
	return used
}

// escape encodes a module path or version for the module proxy: it replaces each uppercase
// letter with "!" and the lowercase letter.
func escape(s string) string {
	var b strings.Builder
	for _, c := range s {
		if c >= 'A' && c <= 'Z' {
			b.WriteByte('!')
			c += 'a' - 'A'
		}
		b.WriteRune(c)
	}
	return b.String()
}

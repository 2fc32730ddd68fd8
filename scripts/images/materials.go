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

// noAssertion is SPDX's word for what is not known.
const noAssertion = "NOASSERTION"

// spdxDocument is what SPDX 2.3 asks of a document, as far as it is used here
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

// billOfMaterials writes the SPDX document of a program. It has no time but the
// sources' own, so that the same sources make the same document.
func billOfMaterials(function string, info *buildinfo.BuildInfo, licences map[string]string, src source) ([]byte, error) {
	const root = "SPDXRef-Program"
	doc := spdxDocument{
		SPDXID: "SPDXRef-DOCUMENT", Version: "SPDX-2.3", DataLicense: "CC0-1.0", Name: "sluice-" + function,
		CreationInfo:  spdxCreation{Created: src.at.Format(time.RFC3339), Creators: []string{"Tool: sluice-images"}},
		Packages:      []spdxPackage{packageOf(root, module+"/functions/"+function, src.version, src.licence)},
		Relationships: []spdxRelationship{{"SPDXRef-DOCUMENT", "DESCRIBES", root}},
	}
	std := packageOf("SPDXRef-Go", "std", strings.TrimPrefix(info.GoVersion, "go"), "BSD-3-Clause")
	std.ExternalRefs = purl("pkg:golang/std@" + std.VersionInfo)
	doc.Packages = append(doc.Packages, std)
	doc.Relationships = append(doc.Relationships, spdxRelationship{root, "CONTAINS", std.SPDXID})
	for i, m := range sortedModules(info.Deps) {
		p := packageOf(fmt.Sprintf("SPDXRef-Module-%d", i+1), m.Path, m.Version, licences[m.Path])
		p.DownloadLocation = "https://proxy.golang.org/" + escape(m.Path) + "/@v/" + escape(m.Version) + ".zip"
		p.ExternalRefs = purl("pkg:golang/" + m.Path + "@" + m.Version)
		p.Comment = "go.sum " + m.Sum
		doc.Packages = append(doc.Packages, p)
		doc.Relationships = append(doc.Relationships, spdxRelationship{root, "CONTAINS", p.SPDXID})
	}
	// The namespace must differ whenever the document does.
	content, err := json.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("encode the bill of materials: %w", err)
	}
	sum := sha256.Sum256(content)
	doc.DocumentNamespace = "https://" + module + "/spdx/" + function + "-" + hex.EncodeToString(sum[:16])
	text, err := json.MarshalIndent(doc, "", " ")
	if err != nil {
		return nil, fmt.Errorf("encode the bill of materials: %w", err)
	}
	return append(text, '\n'), nil
}

func packageOf(id, name, version, licence string) spdxPackage {
	if licence == "" {
		licence = noAssertion
	}
	return spdxPackage{
		SPDXID: id, Name: name, VersionInfo: version, DownloadLocation: noAssertion,
		LicenseConcluded: noAssertion, LicenseDeclared: licence, CopyrightText: noAssertion,
	}
}

func purl(locator string) []spdxReference {
	return []spdxReference{{Category: "PACKAGE-MANAGER", Type: "purl", Locator: locator}}
}

// sortedModules gives what was linked: a replaced module is the one that replaced it.
func sortedModules(deps []*debug.Module) []*debug.Module {
	used := make([]*debug.Module, len(deps))
	for i, m := range deps {
		if used[i] = m; m.Replace != nil {
			used[i] = m.Replace
		}
	}
	slices.SortFunc(used, func(a, b *debug.Module) int { return strings.Compare(a.Path, b.Path) })
	return used
}

// escape spells a module path or version as the module proxy does: "!" before what
// was an upper-case letter.
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

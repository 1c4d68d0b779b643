package main

// What is in a program or an image? The bill of materials comes from the program itself, which has the list of
// its modules.

import (
	"bytes"
	"debug/buildinfo"
	"fmt"
	"time"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
)

// bom is a bill of materials, in CycloneDX's JSON.
// One goes with each archive, and one for each platform refers to the image.
type bom struct{ json []byte }

// billOf lists the modules in a program, as the Go linker has recorded them, and the packages in an image.
// A module that go.mod replaces is listed as the one that was built. Packages are nil for a program
// without an image.
func (r *release) billOf(p program, packages []debianPackage) (bom, error) {
	info, err := buildinfo.ReadFile(p.path)
	if err != nil {
		return bom{}, err
	}
	doc := cyclonedx.NewBOM()
	doc.Metadata = &cyclonedx.Metadata{
		Timestamp:  r.time.Format(time.RFC3339),
		Component:  &cyclonedx.Component{Type: cyclonedx.ComponentTypeApplication, BOMRef: "sluice", Name: "sluice", Version: r.version, PackageURL: "pkg:golang/sluice.dev@" + r.version},
		Properties: &[]cyclonedx.Property{{Name: "platform", Value: p.os + "/" + p.arch}},
	}
	var parts []cyclonedx.Component
	for _, d := range info.Deps {
		if d.Replace != nil {
			d = d.Replace
		}
		url := fmt.Sprintf("pkg:golang/%s@%s", d.Path, d.Version)
		parts = append(parts, cyclonedx.Component{Type: cyclonedx.ComponentTypeLibrary, BOMRef: url, Name: d.Path, Version: d.Version, PackageURL: url})
	}
	goURL := "pkg:golang/stdlib@" + info.GoVersion
	parts = append(parts, cyclonedx.Component{Type: cyclonedx.ComponentTypeLibrary, BOMRef: goURL, Name: "stdlib", Version: info.GoVersion, PackageURL: goURL})
	for _, d := range packages {
		url := fmt.Sprintf("pkg:deb/debian/%s@%s?arch=%s", d.name, d.version, d.arch)
		parts = append(parts, cyclonedx.Component{Type: cyclonedx.ComponentTypeLibrary, BOMRef: url, Name: d.name, Version: d.version, PackageURL: url})
	}
	doc.Components = &parts
	var out bytes.Buffer
	enc := cyclonedx.NewBOMEncoder(&out, cyclonedx.BOMFileFormatJSON)
	if err := enc.SetPretty(true).Encode(doc); err != nil {
		return bom{}, err
	}
	return bom{out.Bytes()}, nil
}

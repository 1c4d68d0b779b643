package bundle

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/resolve"
	"sluice.dev/tools/bundletest"
)

func TestArtifactsGiveAllTheirResources(t *testing.T) {
	file := func(name, text string) bundletest.File { return bundletest.File{Name: name, Data: []byte(text)} }
	plain := map[string]string{}
	long := strings.Repeat("# a comment that fills a layer\n", 40)
	for _, tt := range []struct {
		name   string
		layers []bundletest.Layer
		want   string
	}{
		{"a Tekton bundle", []bundletest.Layer{bundletest.Task("a", yamlA), bundletest.Task("b", yamlB)}, yamlA + "---\n" + yamlB},
		{
			"Flux's artifact",
			[]bundletest.Layer{{
				MediaType: fluxLayer, Annotations: plain,
				Blob: bundletest.Gzip(bundletest.Tar(file("./z/b.yml", yamlB), file("README.md", "words"), file("a.yaml", "---\n"+yamlA), file(".hidden.yaml", "x"), file("LICENSE", "x"))),
			}},
			"---\n" + yamlA + "---\n" + yamlB,
		},
		{"a tar", []bundletest.Layer{{Annotations: plain, Blob: bundletest.Tar(file("x.json", `{"a":1}`))}}, "{\"a\":1}\n"},
		{
			"a Helm chart",
			[]bundletest.Layer{
				{
					MediaType: chartLayer, Annotations: plain,
					Blob: bundletest.Gzip(bundletest.Tar(file("c/Chart.yaml", "name: c"), file("c/values.yaml", "a: 1"), file("c/crds/b.yaml", yamlB), file("c/templates/crds/x.yaml", "{{ x }}"), file("c/charts/d/crds/a.yaml", yamlA), file("crds/x.yaml", "x"))),
				},
				{MediaType: provenanceLayer, Annotations: plain, Blob: []byte("-----BEGIN PGP SIGNED MESSAGE-----")},
			},
			yamlA + "---\n" + yamlB,
		},
		{"a text", []bundletest.Layer{{Annotations: plain, MediaType: "application/yaml", Blob: []byte(long + yamlA)}}, long + yamlA},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t)
			digest := f.push(tt.layers...)
			got, err := NewArtifact(Options{transport: f.transport}).Resolve(t.Context(), request())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, string(got.Data)); diff != "" {
				t.Error(diff)
			}
			if _, warned := got.Annotations[resolve.AnnotationWarning]; warned != (tt.name == "a Helm chart") {
				t.Errorf("annotations %v", got.Annotations)
			}
			if "sha256:"+got.Source.Digest["sha256"] != digest || got.Immutable {
				t.Errorf("source %+v", got.Source)
			}
		})
	}
}

func TestArtifactsThatAreRefused(t *testing.T) {
	plain := map[string]string{}
	tarOf := func(name, text string) []byte {
		return bundletest.Tar(bundletest.File{Name: name, Data: []byte(text)})
	}
	for _, tt := range []struct {
		name   string
		layer  bundletest.Layer
		reason resolve.Reason
	}{
		{"nothing in it", bundletest.Layer{Annotations: plain, Blob: bundletest.Gzip(tarOf("README.md", "x"))}, resolve.ReasonNotFound},
		{"a chart without CRDs", bundletest.Layer{Annotations: plain, MediaType: chartLayer, Blob: bundletest.Gzip(tarOf("c/templates/a.yaml", "{{ x }}"))}, resolve.ReasonNotFound},
		{"too much in it", bundletest.Layer{Annotations: plain, Blob: bundletest.Gzip(tarOf("a.yaml", strings.Repeat("#", 2000)))}, resolve.ReasonTooLarge},
		{"a bomb", bundletest.Layer{Annotations: plain, Blob: bundletest.Gzip(tarOf("a.txt", strings.Repeat("#", 200_000)))}, resolve.ReasonTooLarge},
		{"half a tar", bundletest.Layer{Annotations: plain, Blob: tarOf("a.yaml", strings.Repeat("#", 900))[:1000]}, resolve.ReasonFailed},
		{"broken compression", bundletest.Layer{Annotations: plain, Blob: bundletest.Gzip(tarOf("a.yaml", yamlA))[:40]}, resolve.ReasonFailed},
		{"an unknown type", bundletest.Layer{Annotations: plain, MediaType: "application/vnd.oci.image.layer.v1.tar+zstd", Blob: []byte("x")}, resolve.ReasonFailed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t)
			f.push(tt.layer)
			req := request()
			req.MaxBytes = 1000
			got, err := NewArtifact(Options{transport: f.transport}).Resolve(t.Context(), req)
			var e *resolve.Error
			if !errors.As(err, &e) || e.Reason != tt.reason {
				t.Errorf("got %v, error %v, want %s", got, err, tt.reason)
			}
		})
	}
}

func TestFoldersOfArchives(t *testing.T) {
	file := func(name, text string) bundletest.File { return bundletest.File{Name: name, Data: []byte(text)} }
	many := make([]bundletest.File, maxArtifactFiles+1)
	for i := range many {
		many[i] = file("x", "")
	}
	archive := bundletest.Gzip(bundletest.Tar(file("b.yaml", "b: 1"), file("deploy/c.yml", "c: 1"), file("./deploy/a/a.json", "{}"), file("deploy/README", "words"), file("deployed.yaml", "d: 1"), file("LICENSE", "words"), file("../deploy/up.yaml", "u: 1")))
	for _, tt := range []struct {
		name    string
		archive []byte
		folder  string
		want    string
		reason  resolve.Reason
	}{
		{"all", archive, "", "b: 1\n---\n{}\n---\nc: 1\n---\nu: 1\n---\nd: 1\n", ""},
		{"a folder", archive, "./deploy/", "{}\n---\nc: 1\n---\nu: 1\n", ""},
		{"a folder in it", archive, "deploy/a", "{}\n", ""},
		{"above it", archive, "../../deploy/a", "{}\n", ""},
		{"a tar", bundletest.Tar(file("a.yaml", "a: 1")), "/", "a: 1\n", ""},
		{"nothing there", archive, "other", "", resolve.ReasonNotFound},
		{"no tar", []byte("a: 1"), "", "", resolve.ReasonFailed},
		{"broken", archive[:len(archive)/2], "", "", resolve.ReasonFailed},
		{"too many", bundletest.Gzip(bundletest.Tar(many...)), "other", "", resolve.ReasonTooLarge},
		{"too large", bundletest.Gzip(bundletest.Tar(file("a.yaml", strings.Repeat("a", 1<<20+1)))), "", "", resolve.ReasonTooLarge},
		{"a bomb", bundletest.Gzip(make([]byte, 4<<20)), "", "", resolve.ReasonTooLarge},
	} {
		got, err := Folder(tt.archive, tt.folder, 1<<20)
		var e *resolve.Error
		if errors.As(err, &e) != (tt.reason != "") || e != nil && e.Reason != tt.reason || string(got) != tt.want {
			t.Errorf("%s: %q, %v", tt.name, got, err)
		}
		if err != nil && strings.Contains(err.Error(), "layer") {
			t.Errorf("%s: an archive has no layers: %v", tt.name, err)
		}
	}
}

package bundle

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"sluice.dev/resolve"
	"sluice.dev/tools/bundletest"
)

func TestResolveDeliversWhatTektonsClientsExpect(t *testing.T) {
	f := newFixture(t)
	digest := f.push(bundletest.Task("a", yamlA), bundletest.Task("b", yamlB))
	hex := strings.TrimPrefix(digest, "sha256:")
	want := &resolve.Resource{
		Data: []byte(yamlA),
		Annotations: map[string]string{
			"resolution.tekton.dev/dev.tekton.image.kind":       "task",
			"resolution.tekton.dev/dev.tekton.image.name":       "a",
			"resolution.tekton.dev/dev.tekton.image.apiVersion": "v1",
			"resolution.tekton.dev/content-type":                "application/x-yaml",
			"digest":                                            digest,
			"content-type":                                      "application/x-yaml",
		},
		Source:    resolve.Source{URI: "reg.example.com/team/bundle", Digest: map[string]string{"sha256": hex}, EntryPoint: "a"},
		Anonymous: true,
	}
	for _, tt := range []struct {
		name, image string
		immutable   bool
	}{
		{"by tag", imageV1, false},
		{"by digest", regHost + "/team/bundle@" + digest, true},
		{"by tag and digest", imageV1 + "@" + digest, true},
		// A tag that would lead elsewhere does not matter beside a digest.
		{"by another tag and digest", regHost + "/team/bundle:none@" + digest, true},
		{"as a docker URL", "docker://" + imageV1, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := f.resolve(request(ParamBundle, tt.image))
			if err != nil {
				t.Fatal(err)
			}
			want.Immutable = tt.immutable
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestResolveFetchesOneLayerOnly(t *testing.T) {
	f := newFixture(t)
	a, b := bundletest.Task("a", yamlA), bundletest.Task("b", yamlB)
	f.push(b, a)
	if _, err := f.resolve(request()); err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, r := range f.requests() {
		paths = append(paths, r.path)
	}
	want := []string{"/v2/", "/v2/team/bundle/manifests/v1", "/v2/team/bundle/blobs/" + bundletest.HashOf(a.Blob).String()}
	if diff := cmp.Diff(want, paths); diff != "" {
		t.Error(diff)
	}
}

func TestFormsOfLayers(t *testing.T) {
	long := "# " + strings.Repeat("x", 2000) + "\n" + yamlA
	oldTar := func(data string) []byte {
		b := bundletest.Tar(bundletest.File{Name: "a", Data: []byte(data)})
		copy(b[257:], make([]byte, 8)) // no magic word
		sum := 0
		for i := range 512 {
			if i >= 148 && i < 156 {
				sum += ' '
			} else {
				sum += int(b[i])
			}
		}
		copy(b[148:156], fmt.Sprintf("%06o\x00 ", sum))
		return b
	}
	for _, tt := range []struct {
		name      string
		blob      []byte
		mediaType types.MediaType
		want      string
	}{
		{"gzipped tar", bundletest.Gzip(bundletest.Tar(bundletest.File{Name: "a", Data: []byte(yamlA)})), types.OCILayer, yamlA},
		{"gzipped tar of Docker's type", bundletest.Gzip(bundletest.Tar(bundletest.File{Name: "a", Data: []byte(yamlA)})), types.DockerLayer, yamlA},
		{"tar", bundletest.Tar(bundletest.File{Name: "a", Data: []byte(long)}), types.OCIUncompressedLayer, long},
		{"tar without a magic word", oldTar(long), types.OCIUncompressedLayer, long},
		{"raw bytes", []byte(yamlA), types.OCILayer, yamlA},
		{"raw bytes, longer than a tar header", []byte(long), "application/vnd.cdf.tekton.catalog.v1beta1+yaml", long},
		{"gzipped raw bytes", bundletest.Gzip([]byte(long)), types.OCILayer, long},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t)
			f.push(bundletest.Layer{Name: "a", Kind: "task", APIVersion: "v1", Blob: tt.blob, MediaType: tt.mediaType})
			got, err := f.resolve(request(ParamKind, "Task"))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, string(got.Data)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestIndexes(t *testing.T) {
	f := newFixture(t)
	image := func(yaml string, p *v1.Platform, annotations map[string]string) v1.Descriptor {
		d, err := f.Push(t.Context(), "child", bundletest.Task("a", yaml))
		if err != nil {
			t.Fatal(err)
		}
		return v1.Descriptor{MediaType: types.OCIManifestSchema1, Digest: d, Size: 1, Platform: p, Annotations: annotations}
	}
	amd64, arm64 := &v1.Platform{OS: "linux", Architecture: "amd64"}, &v1.Platform{OS: "linux", Architecture: "arm64"}
	attestation := image("attestation", &v1.Platform{OS: "unknown", Architecture: "unknown"}, map[string]string{"vnd.docker.reference.type": "attestation-manifest"})
	nested, err := f.PushIndex(t.Context(), "nested", image(yamlA, nil, nil))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		images []v1.Descriptor
		want   string
	}{
		{"one image", []v1.Descriptor{image(yamlA, arm64, nil)}, yamlA},
		{"one image and an attestation", []v1.Descriptor{attestation, image(yamlA, nil, nil)}, yamlA},
		{"one for linux/amd64", []v1.Descriptor{image(yamlA, arm64, nil), image(yamlB, amd64, nil)}, yamlB},
		{"two for linux/amd64", []v1.Descriptor{image(yamlA, amd64, nil), image(yamlB, amd64, nil)}, ""},
		{"several without a platform", []v1.Descriptor{image(yamlA, nil, nil), image(yamlB, nil, nil)}, ""},
		{"nothing", nil, ""},
		{"an attestation", []v1.Descriptor{attestation}, ""},
		{"an index", []v1.Descriptor{{MediaType: types.OCIImageIndex, Digest: nested, Size: 1}}, ""},
		{"an index that says it is an image", []v1.Descriptor{{MediaType: types.OCIManifestSchema1, Digest: nested, Size: 1}}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := f.PushIndex(t.Context(), "v1", tt.images...); err != nil {
				t.Fatal(err)
			}
			got, err := f.resolve(request())
			if tt.want == "" {
				if e := failure(t, err); e.Reason != resolve.ReasonFailed || e.Transient {
					t.Errorf("reason %q, transient %v: %v", e.Reason, e.Transient, e)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, string(got.Data)); diff != "" {
				t.Error(diff)
			}
			// The digest is the image's, as Tekton has it, not the index's.
			ok := slices.ContainsFunc(tt.images, func(d v1.Descriptor) bool { return d.Digest.Hex == got.Source.Digest["sha256"] })
			if !ok {
				t.Errorf("the digest %v is none of the images'", got.Source.Digest)
			}
		})
	}
}

func TestNotFoundTellsWhatThereIs(t *testing.T) {
	f := newFixture(t)
	f.push(bundletest.Task("a", yamlA), bundletest.Layer{Name: "100%s", Kind: "pipeline", APIVersion: "v1", Blob: []byte(yamlB)})
	for _, params := range [][]string{{ParamName, "c"}, {ParamKind, "pipeline"}} {
		_, err := f.resolve(request(params...))
		e := failure(t, err)
		if e.Reason != resolve.ReasonNotFound || e.Transient || !strings.Contains(e.Msg, "pipeline/100%s, task/a") {
			t.Errorf("%v: reason %q, text %q", params, e.Reason, e.Msg)
		}
	}
}

func TestSpecReferencesAreChecked(t *testing.T) {
	for _, tt := range []struct {
		in string
		ok bool
	}{
		{"gcr.io/tekton-releases/catalog/upstream/golang-fuzz:0.1", true},
		{"bundle", true},
		{"reg.example.com:5000/a/b@sha256:" + strings.Repeat("a", 64), true},
		{"", false},
		{"https://reg.example.com/a", false},
		{"file:///etc/passwd", false},
		{"reg.example.com/a b", false},
		{"reg.example.com/../a", false},
		{"user:password@reg.example.com/a", false},
		{"--upload-pack=x", false},
		{"reg.example.com/a@sha256:abc", false},
		{"reg.example.com/a@sha512:" + strings.Repeat("a", 128), false},
		{"reg.example.com/a/./b", false},
		{"reg.example.com/a/..", false},
		{"reg.example.com/-a", false},
		{"REG/UPPER", false},
		{"reg.example.com/a\n", false},
	} {
		if err := checkReference(tt.in); (err == nil) != tt.ok {
			t.Errorf("%q: %v", tt.in, err)
		}
	}
}

func TestSpecHasNoDoubles(t *testing.T) {
	spec := New(Options{}).Spec()
	seen := map[string]bool{}
	for _, p := range spec.Params {
		for _, n := range append([]string{p.Name}, p.Aliases...) {
			if seen[n] {
				t.Errorf("%s stands twice", n)
			}
			seen[n] = true
		}
		if p.Doc == "" {
			t.Errorf("%s has no documentation", p.Name)
		}
	}
	for _, n := range []string{"bundle", "image_url", "name", "kind", "secret", "serviceAccount", "signer"} {
		if !seen[n] {
			t.Errorf("%s is missing", n)
		}
	}
}

func TestAMissingTagOffersTheNearest(t *testing.T) {
	f := newFixture(t)
	for _, tag := range []string{"v1", "v1.2.0", "sha256-abc.sig", "a", "b", "c", "1.10.0"} {
		if _, err := f.Push(t.Context(), tag, bundletest.Task("a", yamlA)); err != nil {
			t.Fatal(err)
		}
	}
	for image, want := range map[string]string{
		"team/bundle:v1.2.1": "does not have it (MANIFEST_UNKNOWN Unknown manifest); the nearest tag is v1.2.0; there are ",
		"team/bundle":        "(MANIFEST_UNKNOWN Unknown manifest); there are ",
		"team/bundle:1.1.0":  "the nearest tag is 1.10.0; there are ",
		"team/nobody:v1":     "does not have it (NAME_UNKNOWN Unknown name)",
		"team/bundle@sha256:" + strings.Repeat("ab", 32): "does not have it (MANIFEST_UNKNOWN Unknown manifest)",
	} {
		_, err := f.resolve(request(ParamBundle, regHost+"/"+image))
		e := failure(t, err)
		listed := strings.Contains(want, "there are")
		if e.Reason != resolve.ReasonNotFound || !strings.Contains(e.Msg, want) || strings.Contains(e.Msg, "there are") != listed || strings.Contains(e.Msg, ".sig") {
			t.Errorf("%s: %s: %s", image, e.Reason, e.Msg)
		}
	}
}

package bundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"sluice.dev/resolve"
	"sluice.dev/tools/bundletest"
)

// bomb is a gzip of some megabytes of zeros for each megabyte of n.
func bomb(t testing.TB, header []byte, megabytes int) []byte {
	t.Helper()
	var buf bytes.Buffer
	w, err := gzip.NewWriterLevel(&buf, gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = w.Write(header)
	zeros := make([]byte, 1<<20)
	for range megabytes {
		_, _ = w.Write(zeros)
	}
	_ = w.Close()
	return buf.Bytes()
}

// header is a tar header that announces a file of that size; there is none.
func header(t testing.TB, h tar.Header) []byte {
	t.Helper()
	var buf bytes.Buffer
	if err := tar.NewWriter(&buf).WriteHeader(&h); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// paxRecord is the header of a PAX record that announces a terabyte, which the writer of the library does not make.
func paxRecord(t testing.TB) []byte {
	t.Helper()
	b := header(t, tar.Header{Name: "a", Size: 1 << 40, Format: tar.FormatGNU})[:512]
	b[156] = tar.TypeXHeader
	copy(b[148:156], "        ")
	sum := 0
	for _, c := range b {
		sum += int(c)
	}
	copy(b[148:156], fmt.Sprintf("%06o\x00 ", sum))
	return b
}

func layer(blob []byte) bundletest.Layer {
	return bundletest.Layer{Name: "a", Kind: "task", APIVersion: "v1", Blob: blob}
}

func TestHostileBundlesAreRefused(t *testing.T) {
	many := make([]bundletest.Layer, 21)
	for i := range many {
		many[i] = bundletest.Task(fmt.Sprint("a", i), yamlA)
	}
	lying := bundletest.Task("a", yamlA)
	lying.Digest = bundletest.HashOf([]byte("never pushed"))
	short, long := bundletest.Task("a", yamlA), bundletest.Task("a", yamlA)
	short.Size, long.Size = 10, 1<<20
	negative := bundletest.Task("a", yamlA)
	negative.Size = -1
	huge := bundletest.Task("a", yamlA)
	huge.Size = 1 << 60
	other := bundletest.Task("a", yamlA)
	other.Digest = v1.Hash{Algorithm: "sha512", Hex: strings.Repeat("a", 128)}
	typed := func(m types.MediaType) bundletest.Layer {
		l := bundletest.Task("a", yamlA)
		l.MediaType = m
		return l
	}
	file := bundletest.File{Name: "a", Data: []byte(yamlA)}
	for _, tt := range []struct {
		name   string
		layers []bundletest.Layer
		want   resolve.Reason
	}{
		{"21 layers", many, resolve.ReasonTooLarge},
		{"no layers", nil, resolve.ReasonNotFound},
		{"a layer without annotations", []bundletest.Layer{bundletest.Task("a", yamlA), {Blob: []byte("x"), Annotations: map[string]string{"a": "b"}}}, resolve.ReasonFailed},
		{"the same resource twice", []bundletest.Layer{bundletest.Task("a", yamlA), bundletest.Task("a", yamlB)}, resolve.ReasonFailed},
		{"a layer that is kept elsewhere", []bundletest.Layer{typed(types.DockerForeignLayer)}, resolve.ReasonFailed},
		{"zstd", []bundletest.Layer{typed(types.OCILayerZStd)}, resolve.ReasonFailed},
		{"an unknown type", []bundletest.Layer{typed("text/\x1b[31mhtml")}, resolve.ReasonFailed},
		{"a layer that is not there", []bundletest.Layer{lying}, resolve.ReasonNotFound},
		{"a size that is too small", []bundletest.Layer{short}, resolve.ReasonTooLarge},
		{"a size that is too large", []bundletest.Layer{long}, resolve.ReasonFailed},
		{"a negative size", []bundletest.Layer{negative}, resolve.ReasonTooLarge},
		{"an announced exabyte", []bundletest.Layer{huge}, resolve.ReasonTooLarge},
		{"another digest algorithm", []bundletest.Layer{other}, resolve.ReasonFailed},
		{"a decompression bomb", []bundletest.Layer{layer(bomb(t, nil, 128))}, resolve.ReasonTooLarge},
		{"a decompression bomb in a tar", []bundletest.Layer{layer(bomb(t, header(t, tar.Header{Name: "a", Size: 1024 << 20, Format: tar.FormatPAX}), 128))}, resolve.ReasonTooLarge},
		{"a tar that announces an exabyte", []bundletest.Layer{layer(header(t, tar.Header{Name: "a", Size: 1 << 60, Format: tar.FormatPAX}))}, resolve.ReasonTooLarge},
		{"a GNU tar that announces an exabyte", []bundletest.Layer{layer(header(t, tar.Header{Name: "a", Size: 1 << 60, Format: tar.FormatGNU}))}, resolve.ReasonTooLarge},
		{"a tar that ends early", []bundletest.Layer{layer(bundletest.Gzip(header(t, tar.Header{Name: "a", Size: 1000})))}, resolve.ReasonFailed},
		{"an empty tar", []bundletest.Layer{layer(bundletest.Tar())}, resolve.ReasonFailed},
		{"a tar with two files", []bundletest.Layer{layer(bundletest.Tar(file, bundletest.File{Name: "secret", Data: []byte("kind: Secret\n")}))}, resolve.ReasonFailed},
		{"two documents", []bundletest.Layer{layer([]byte(yamlA + "\n---\nkind: Secret\n"))}, resolve.ReasonFailed},
		{"two documents in a tar", []bundletest.Layer{bundletest.Task("a", yamlA+"\n---\nkind: Secret\n")}, resolve.ReasonFailed},
		{"a tar with a link", []bundletest.Layer{layer(append(header(t, tar.Header{Name: "a", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}), make([]byte, 1024)...))}, resolve.ReasonFailed},
		{"a tar with a device", []bundletest.Layer{layer(append(header(t, tar.Header{Name: "a", Typeflag: tar.TypeBlock}), make([]byte, 1024)...))}, resolve.ReasonFailed},
		{"a broken gzip", []bundletest.Layer{layer(bundletest.Gzip([]byte(yamlA))[:20])}, resolve.ReasonFailed},
		{"a gzip header alone", []bundletest.Layer{layer([]byte{0x1f, 0x8b})}, resolve.ReasonFailed},
		{"zeros", []bundletest.Layer{layer(make([]byte, 4096))}, resolve.ReasonFailed},
		{"nothing", []bundletest.Layer{layer([]byte("\n"))}, resolve.ReasonFailed},
		{"a long text", []bundletest.Layer{layer(bundletest.Gzip(bytes.Repeat([]byte("a: b\n"), 1<<20)))}, resolve.ReasonTooLarge},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t)
			f.push(tt.layers...)
			_, err := f.resolve(request())
			if e := failure(t, err); e.Reason != tt.want || e.Transient {
				t.Errorf("reason %q, transient %v, want %q: %v", e.Reason, e.Transient, tt.want, e)
			}
		})
	}
}

// A layer of some megabytes must not cost more memory than its limit, whatever it inflates to.
func TestBombsCostNoMemory(t *testing.T) {
	for name, blob := range map[string][]byte{
		"gzip":       bomb(t, nil, 128),
		"tar":        header(t, tar.Header{Name: "a", Size: 1 << 60, Format: tar.FormatPAX}),
		"gzip, tar":  bomb(t, header(t, tar.Header{Name: "a", Size: 1 << 60, Format: tar.FormatPAX}), 128),
		"PAX record": bomb(t, paxRecord(t), 128),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := layerContent(blob, 1<<20); err == nil {
			t.Errorf("%s: no error", name)
		}
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; got > 32<<20 {
			t.Errorf("%s: %d MiB were allocated", name, got>>20)
		}
	}
}

func TestHostileRegistriesAreRefused(t *testing.T) {
	endless := func(w http.ResponseWriter, _ *http.Request) {
		chunk := bytes.Repeat([]byte(" "), 1<<20)
		for range 1 << 12 {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	}
	typed := func(mediaType string, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", mediaType)
			_, _ = io.WriteString(w, body)
		}
	}
	tooMany, err := json.Marshal(v1.IndexManifest{Manifests: make([]v1.Descriptor, 1000)})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name  string
		match string
		do    http.HandlerFunc
		want  resolve.Reason
	}{
		{"an endless manifest", "/manifests/", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", string(types.OCIManifestSchema1))
			endless(w, r)
		}, resolve.ReasonTooLarge},
		{"a manifest over the limit", "/manifests/", typed(string(types.OCIManifestSchema1), strings.Repeat(" ", 1<<20)+"{}"), resolve.ReasonTooLarge},
		{"an endless layer", "/blobs/", endless, resolve.ReasonTooLarge},
		{"a layer that announces an exabyte", "/blobs/", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1152921504606846976")
		}, resolve.ReasonTooLarge},
		{"an endless error", "/manifests/", func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusNotFound)
			endless(w, r)
		}, resolve.ReasonNotFound},
		{"another layer", "/blobs/", typed("", yamlB), resolve.ReasonFailed},
		{"garbage for a manifest", "/manifests/", typed(string(types.OCIManifestSchema1), "\x00\x1b[31m%s"), resolve.ReasonFailed},
		{"HTML for a manifest", "/manifests/", typed("text/html", "<html>"), resolve.ReasonFailed},
		{"no type", "/manifests/", typed("", `{"layers":[]}`), resolve.ReasonFailed},
		{"garbage for an index", "/manifests/", typed(string(types.OCIImageIndex), "["), resolve.ReasonFailed},
		{"a long index", "/manifests/", typed(string(types.OCIImageIndex), string(tooMany)), resolve.ReasonFailed},
		{"an old schema", "/manifests/", typed(string(types.DockerManifestSchema1Signed), "{}"), resolve.ReasonFailed},
		{"a long chain of redirects", "/manifests/", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, r.URL.Path+"x", http.StatusFound)
		}, resolve.ReasonFailed},
		{"a redirect to a file", "/blobs/", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "file:///etc/passwd")
			w.WriteHeader(http.StatusFound)
		}, resolve.ReasonForbidden},
		{"a redirect to plain HTTP", "/blobs/", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://blobs.example.com"+r.URL.Path, http.StatusFound)
		}, resolve.ReasonForbidden},
		{"a redirect to the metadata address", "/blobs/", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://169.254.169.254/latest", http.StatusFound)
		}, resolve.ReasonFailed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t)
			f.push(bundletest.Task("a", yamlA))
			f.front = func(w http.ResponseWriter, r *http.Request) bool {
				if !strings.Contains(r.URL.Path, tt.match) {
					return false
				}
				tt.do(w, r)
				return true
			}
			_, err := f.resolve(request())
			if e := failure(t, err); e.Reason != tt.want || e.Transient {
				t.Errorf("reason %q, transient %v, want %q: %v", e.Reason, e.Transient, tt.want, e)
			}
		})
	}
}

// The library takes the digest of an old signed manifest from a header of the answer.
func TestPinnedDigestsAreThoseOfTheBytes(t *testing.T) {
	f := newFixture(t)
	digest := f.push(bundletest.Task("a", yamlA))
	for _, mediaType := range []types.MediaType{types.OCIManifestSchema1, types.DockerManifestSchema1Signed} {
		f.front = func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.Contains(r.URL.Path, "/manifests/") {
				return false
			}
			w.Header().Set("Content-Type", string(mediaType))
			w.Header().Set("Docker-Content-Digest", digest)
			_, _ = io.WriteString(w, `{"schemaVersion":2,"layers":[]}`)
			return true
		}
		_, err := f.resolve(request(ParamBundle, regHost+"/team/bundle@"+digest))
		if e := failure(t, err); e.Reason != resolve.ReasonFailed || e.Transient {
			t.Errorf("%s: reason %q: %v", mediaType, e.Reason, e)
		}
	}
}

func FuzzContent(f *testing.F) {
	f.Add([]byte(yamlA))
	f.Add(bundletest.Tar(bundletest.File{Name: "a", Data: []byte(yamlA)}))
	f.Add(bundletest.Gzip(bundletest.Tar(bundletest.File{Name: "a", Data: []byte(yamlA)})))
	f.Fuzz(func(t *testing.T, blob []byte) {
		const most = 1 << 16
		if data, err := layerContent(blob, most); err == nil && len(data) > most {
			t.Errorf("%d bytes", len(data))
		}
	})
}

package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"sluice.dev/tools/bundletest"
)

func TestArchivesComeFromOneHost(t *testing.T) {
	archive := bundletest.Gzip(bundletest.Tar(bundletest.File{Name: "a.yaml", Data: []byte("a: 1\n")}))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(archive) }))
	defer server.Close()
	_, port, _ := strings.Cut(strings.TrimPrefix(server.URL, "http://"), ":")
	sum := sha256.Sum256(archive)
	digest := "sha256:" + hex.EncodeToString(sum[:])
	for name, test := range map[string]struct{ host, address, digest, wrong string }{
		"as it is":             {"localhost:" + port, "http://localhost:" + port + "/a.tar.gz", digest, ""},
		"with a dot":           {"localhost:" + port, "http://localhost.:" + port + "/a.tar.gz", digest, ""},
		"another port":         {"localhost:1", "http://localhost:" + port + "/a.tar.gz", digest, "the artifact is at localhost:" + port + "; only localhost:1 is allowed"},
		"another host":         {"localhost:" + port, "http://127.0.0.1:" + port + "/a.tar.gz", digest, "only localhost:" + port + " is allowed"},
		"a password":           {"localhost:" + port, "http://a:b@localhost:" + port + "/a.tar.gz", digest, "has a user name or password"},
		"another content":      {"localhost:" + port, "http://localhost:" + port + "/a.tar.gz", "sha256:00", "the artifact has the digest " + digest + ", want sha256:00"},
		"another algorithm":    {"localhost:" + port, "http://localhost:" + port + "/a.tar.gz", "sha512:00", "want sha512:00"},
		"off":                  {"", "http://localhost:" + port + "/a.tar.gz", digest, "--flux-source-controller is empty"},
		"no address of a file": {"localhost:" + port, "http://[", digest, "cannot be read"},
	} {
		get, err := archiveFetcherFor(test.host)
		if err != nil {
			t.Fatal(err)
		}
		data, err := get(t.Context(), test.address, test.digest, "")
		if test.wrong == "" && (err != nil || string(data) != "a: 1\n") || test.wrong != "" && (err == nil || !strings.Contains(err.Error(), test.wrong)) {
			t.Errorf("%s: %q, %v", name, data, err)
		}
	}
	if _, err := archiveFetcherFor("a b"); err == nil || !strings.Contains(err.Error(), "--flux-source-controller") {
		t.Errorf("a host that is none: %v", err)
	}
}

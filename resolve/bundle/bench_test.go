package bundle

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"

	"sluice.dev/tools/bundletest"
)

// BenchmarkResolve fetches one task of a bundle, uncached, from a registry on loopback: three exchanges each.
func BenchmarkResolve(b *testing.B) {
	s := httptest.NewTLSServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	b.Cleanup(s.Close)
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, MaxIdleConnsPerHost: 64}
	b.Cleanup(transport.CloseIdleConnections)
	host := strings.TrimPrefix(s.URL, "https://")
	reg, err := bundletest.NewRegistry(host, "team/bundle", transport)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := reg.Push(b.Context(), "v1", bundletest.Task("a", yamlA), bundletest.Task("b", yamlB)); err != nil {
		b.Fatal(err)
	}
	r := New(Options{transport: transport})
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		req := request(ParamBundle, host+"/team/bundle:v1")
		for pb.Next() {
			if _, err := r.Resolve(b.Context(), req); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

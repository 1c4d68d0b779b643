package pki_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/localcluster/internal/pki"
)

var (
	today  = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	client = pki.Leaf{Name: "admin", CommonName: "admin", Groups: []string{"system:masters"}}
	server = pki.Leaf{Name: "server", CommonName: "server", DNSNames: []string{"localhost"}, IPs: []net.IP{net.IPv4(127, 0, 0, 1)}}
)

func open(t *testing.T, dir string, now time.Time) *pki.Authority {
	t.Helper()
	authority, err := pki.Open(dir, now)
	if err != nil {
		t.Fatal(err)
	}
	return authority
}

func issue(t *testing.T, authority *pki.Authority, leaf pki.Leaf) pki.Pair {
	t.Helper()
	pair, err := authority.Leaf(leaf)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

func parse(t *testing.T, pair pki.Pair) *x509.Certificate {
	t.Helper()
	if _, err := tls.X509KeyPair(pair.CertPEM, pair.KeyPEM); err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(pair.CertPEM)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func TestLeavesVerifyAgainstTheAuthority(t *testing.T) {
	authority := open(t, filepath.Join(t.TempDir(), "new", "pki"), today)
	roots := x509.NewCertPool()
	roots.AddCert(parse(t, authority.CA()))
	for _, test := range []struct {
		leaf  pki.Leaf
		usage x509.ExtKeyUsage
		name  string
	}{
		{client, x509.ExtKeyUsageClientAuth, ""},
		{server, x509.ExtKeyUsageServerAuth, "localhost"},
		{server, x509.ExtKeyUsageServerAuth, "127.0.0.1"},
	} {
		cert := parse(t, issue(t, authority, test.leaf))
		options := x509.VerifyOptions{Roots: roots, CurrentTime: today, DNSName: test.name, KeyUsages: []x509.ExtKeyUsage{test.usage}}
		if _, err := cert.Verify(options); err != nil {
			t.Errorf("%s: %v", test.leaf.Name, err)
		}
		if diff := cmp.Diff(test.leaf.Groups, cert.Subject.Organization); diff != "" {
			t.Error(diff)
		}
	}
}

func TestWhatWasMadeOnceIsUsedAgain(t *testing.T) {
	dir := t.TempDir()
	first := open(t, dir, today)
	key, _, err := first.SigningKey("tokens")
	if err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	second := open(t, dir, today.AddDate(5, 0, 0))
	again, public, err := second.SigningKey("tokens")
	if err != nil {
		t.Fatal(err)
	}
	after, err := os.ReadFile(again)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(public); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(string(before), string(after)); diff != "" {
		t.Errorf("the key for tokens changed: %s", diff)
	}
	if diff := cmp.Diff(first.CA(), second.CA()); diff != "" {
		t.Errorf("the authority changed: %s", diff)
	}
	one := issue(t, first, client)
	if diff := cmp.Diff(one, issue(t, second, client)); diff != "" {
		t.Errorf("the certificate changed: %s", diff)
	}
}

func TestALeafThatNoLongerFitsIsMadeAnew(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, dir string) (pki.Leaf, time.Time){
		"near its end": func(*testing.T, string) (pki.Leaf, time.Time) { return server, today.AddDate(9, 11, 15) },
		"other name": func(*testing.T, string) (pki.Leaf, time.Time) {
			leaf := server
			leaf.CommonName = "other"
			return leaf, today
		},
		"further DNS name": func(*testing.T, string) (pki.Leaf, time.Time) {
			leaf := server
			leaf.DNSNames = []string{"localhost", "other.example"}
			return leaf, today
		},
		"further address": func(*testing.T, string) (pki.Leaf, time.Time) {
			leaf := server
			leaf.IPs = []net.IP{net.IPv4(127, 0, 0, 2)}
			return leaf, today
		},
		"damaged": func(t *testing.T, dir string) (pki.Leaf, time.Time) {
			if err := os.WriteFile(filepath.Join(dir, "server.crt"), []byte("junk"), 0o600); err != nil {
				t.Fatal(err)
			}
			return server, today
		},
		"key missing": func(t *testing.T, dir string) (pki.Leaf, time.Time) {
			if err := os.Remove(filepath.Join(dir, "server.key")); err != nil {
				t.Fatal(err)
			}
			return server, today
		},
		"key of another": func(t *testing.T, dir string) (pki.Leaf, time.Time) {
			issue(t, open(t, dir, today), client)
			if err := os.Rename(filepath.Join(dir, "admin.key"), filepath.Join(dir, "server.key")); err != nil {
				t.Fatal(err)
			}
			return server, today
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			before := parse(t, issue(t, open(t, dir, today), server))
			leaf, now := change(t, dir)
			authority := open(t, dir, now)
			after := parse(t, issue(t, authority, leaf))
			if after.Equal(before) {
				t.Error("the old certificate was kept")
			}
			if err := after.CheckSignatureFrom(parse(t, authority.CA())); err != nil {
				t.Error(err)
			}
			if left := after.NotAfter.Sub(now); left < 365*24*time.Hour {
				t.Errorf("the new certificate ends after %s", left)
			}
		})
	}
}

func TestADamagedAuthorityOrKeyIsAnError(t *testing.T) {
	for _, file := range []string{"ca.crt", "ca.key", "tokens.key"} {
		t.Run(file, func(t *testing.T) {
			dir := t.TempDir()
			if _, _, err := open(t, dir, today).SigningKey("tokens"); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, file), []byte("junk"), 0o600); err != nil {
				t.Fatal(err)
			}
			authority, err := pki.Open(dir, today)
			if err == nil {
				_, _, err = authority.SigningKey("tokens")
			}
			if err == nil {
				t.Error("it was replaced or overlooked")
			}
		})
	}
}

func TestALostAuthorityKeyIsAnErrorAndNotAReasonForANewAuthority(t *testing.T) {
	dir := t.TempDir()
	open(t, dir, today)
	if err := os.Remove(filepath.Join(dir, "ca.key")); err != nil {
		t.Fatal(err)
	}
	if _, err := pki.Open(dir, today); err == nil {
		t.Error("no error")
	}
}

func TestPrivateKeysAreReadableByTheirOwnerOnly(t *testing.T) {
	dir := t.TempDir()
	authority := open(t, dir, today)
	issue(t, authority, client)
	if _, _, err := authority.SigningKey("tokens"); err != nil {
		t.Fatal(err)
	}
	keys, err := filepath.Glob(filepath.Join(dir, "*.key"))
	if err != nil || len(keys) != 3 {
		t.Fatalf("%v (%v)", keys, err)
	}
	for _, key := range keys {
		info, err := os.Stat(key)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", key, info.Mode())
		}
	}
}

package resolve_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"sluice.dev/resolve"
)

type oneSecret map[string][]byte

func (s oneSecret) Secret(context.Context, string, string) (map[string][]byte, error) { return s, nil }

func TestASecretSaysToWhichHostsItGoes(t *testing.T) {
	for _, test := range []struct {
		annotation string // "-": there is none
		demanded   bool
		host       string
		ok         bool
	}{
		{"-", false, "example.com", true},
		{"-", true, "example.com", false},
		{"example.com", true, "example.com", true},
		{"example.com", false, "example.com", true},
		{"example.com", false, "evil.test", false},
		{"example.com", false, "example.com:8443", false},
		{"example.com", false, "sub.example.com", false},
		{"example.com:8443", false, "example.com:8443", true},
		{"a.test, Example.com b.test", false, "example.com", true},
		{"*.example.com", false, "git.example.com", true},
		{"*.example.com", false, "a.b.example.com", true},
		{"*.example.com", false, "example.com", false},
		{"*.example.com", false, "evilexample.com", false},
		{"*.example.com", false, "git.example.com:8443", false},
		{"*example.com", false, "evilexample.com", false},
		{"*", false, "example.com", false},
		{"*.", false, "example.", false},
		{"", false, "example.com", false},
		{"", true, "", false},
	} {
		data := oneSecret{"token": []byte("hunter2")}
		if test.annotation != "-" {
			data[resolve.SecretHosts] = []byte(test.annotation)
		}
		r := &resolve.Request{Secrets: data, Config: resolve.Config{}}
		if test.demanded {
			r.Config[resolve.KeySecretHosts] = "true"
		}
		got, err := r.SecretFor(t.Context(), "ns", "s", test.host)
		var e *resolve.Error
		switch {
		case test.ok && (err != nil || string(got["token"]) != "hunter2" || len(got) != 1):
			t.Errorf("%+v: %v, %v", test, got, err)
		case !test.ok && (!errors.As(err, &e) || e.Reason != resolve.ReasonDenied || strings.Contains(e.Msg, "hunter2")):
			t.Errorf("%+v: %v, %v", test, got, err)
		}
		if test.annotation != "-" && data[resolve.SecretHosts] == nil {
			t.Errorf("%+v: the data of others was changed", test)
		}
	}
}

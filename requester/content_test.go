package requester_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"

	"sluice.dev/api/resolution/v1beta1"
	"sluice.dev/requester"
)

// store gives what is in it, whatever is asked for.
type store struct {
	data  []byte
	err   error
	asked string
}

func (s *store) Get(_ context.Context, ref, digest string, size int64) ([]byte, error) {
	s.asked = fmt.Sprint(ref, " ", digest, " ", size)
	return s.data, s.err
}

func digestOf(data []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(data)) }

func packed(t *testing.T, data []byte) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(b.Bytes())
}

func TestLargeContentIsWhatTheRequestSays(t *testing.T) {
	data := []byte(strings.Repeat("kind: Task\n", 100))
	size, digest := int64(len(data)), digestOf(data)
	bomb := packed(t, make([]byte, 64<<20))
	const ref = "reg.test/c@sha256:00"
	broken := errors.New("broken")
	for name, test := range map[string]struct {
		status v1beta1.ResolutionRequestStatus
		store  *store
		wrong  string // a DataError with this text
		err    error
	}{
		"compressed":             {v1beta1.ResolutionRequestStatus{Data: packed(t, data), DataEncoding: "gzip", DataDigest: digest, DataSize: size}, nil, "", nil},
		"stored":                 {v1beta1.ResolutionRequestStatus{DataRef: ref, DataDigest: digest, DataSize: size}, &store{data: data}, "", nil},
		"with its digest":        {v1beta1.ResolutionRequestStatus{Data: base64.StdEncoding.EncodeToString(data), DataDigest: digest}, nil, "", nil},
		"a bomb":                 {v1beta1.ResolutionRequestStatus{Data: bomb, DataEncoding: "gzip", DataDigest: digest, DataSize: size}, nil, "inflates to more than the 1100 bytes", nil},
		"a bomb that says so":    {v1beta1.ResolutionRequestStatus{Data: bomb, DataEncoding: "gzip", DataDigest: digest, DataSize: 64 << 20}, nil, "over the limit of 2000 bytes", nil},
		"no gzip":                {v1beta1.ResolutionRequestStatus{Data: "eA==", DataEncoding: "gzip", DataDigest: digest, DataSize: size}, nil, "not gzip", nil},
		"cut gzip":               {v1beta1.ResolutionRequestStatus{Data: packed(t, data)[:40], DataEncoding: "gzip", DataDigest: digest, DataSize: size}, nil, "not gzip", nil},
		"less than it says":      {v1beta1.ResolutionRequestStatus{Data: packed(t, data), DataEncoding: "gzip", DataDigest: digest, DataSize: size + 1}, nil, "1100 bytes, not 1101", nil},
		"another digest":         {v1beta1.ResolutionRequestStatus{Data: packed(t, data), DataEncoding: "gzip", DataDigest: digestOf(nil), DataSize: size}, nil, "its digest is", nil},
		"a weak digest":          {v1beta1.ResolutionRequestStatus{Data: packed(t, data), DataEncoding: "gzip", DataDigest: "md5:00", DataSize: size}, nil, "its digest is", nil},
		"no digest":              {v1beta1.ResolutionRequestStatus{Data: packed(t, data), DataEncoding: "gzip", DataSize: size}, nil, `the digest ""`, nil},
		"another inline":         {v1beta1.ResolutionRequestStatus{Data: "eA==", DataDigest: digest}, nil, "its digest is", nil},
		"an unknown encoding":    {v1beta1.ResolutionRequestStatus{Data: "eA==", DataEncoding: "br", DataDigest: digest, DataSize: size}, nil, "encoding", nil},
		"no store":               {v1beta1.ResolutionRequestStatus{DataRef: ref, DataDigest: digest, DataSize: size}, nil, "is not set up to read it", nil},
		"in both":                {v1beta1.ResolutionRequestStatus{Data: "eA==", DataRef: ref, DataDigest: digest, DataSize: size}, &store{data: data}, "in a store and in the request", nil},
		"less than nothing":      {v1beta1.ResolutionRequestStatus{DataRef: ref, DataDigest: digest, DataSize: -1}, &store{data: data}, "size -1", nil},
		"too large in the store": {v1beta1.ResolutionRequestStatus{DataRef: ref, DataDigest: digest, DataSize: 1 << 40}, &store{data: data}, "over the limit of 2000 bytes", nil},
		"a store that lies":      {v1beta1.ResolutionRequestStatus{DataRef: ref, DataDigest: digest, DataSize: size}, &store{data: bytes.ToUpper(data)}, "its digest is", nil},
		"a store with less":      {v1beta1.ResolutionRequestStatus{DataRef: ref, DataDigest: digest, DataSize: size}, &store{}, "0 bytes, not 1100", nil},
		"a store that fails":     {v1beta1.ResolutionRequestStatus{DataRef: ref, DataDigest: digest, DataSize: size}, &store{err: broken}, "", broken},
	} {
		r := &v1beta1.ResolutionRequest{Status: test.status}
		r.Status.Conditions = []v1beta1.Condition{{Type: "Succeeded", Status: "True"}}
		q := requester.Requester{MaxBytes: 2000}
		if test.store != nil {
			q.Store = test.store
		}
		got, err := q.Outcome(t.Context(), r)
		wrong, isWrong := errors.AsType[*requester.DataError](err)
		switch {
		case test.wrong != "" && (!isWrong || !strings.Contains(wrong.Message, test.wrong) || got != nil),
			test.err != nil && (isWrong || !errors.Is(err, test.err) || got != nil),
			test.wrong == "" && test.err == nil && (err != nil || !bytes.Equal(got.Data, data)):
			t.Errorf("%s: %v %v", name, got, err)
		}
		if test.store != nil && test.store.asked != "" && test.store.asked != fmt.Sprint(ref, " ", digest, " ", size) {
			t.Errorf("%s: the store is asked for %s", name, test.store.asked)
		}
	}
}

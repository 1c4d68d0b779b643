package resolution

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"sluice.dev/api/resolution/v1beta1"
	"sluice.dev/resolve"
)

// memory is a store that keeps what it gets.
type memory struct {
	got [][]byte
	err error
}

func (m *memory) Put(_ context.Context, data []byte) (string, error) {
	m.got = append(m.got, data)
	return "reg.test/c@sha256:00", m.err
}

func random(n int) []byte {
	out := make([]byte, n)
	r := rand.NewChaCha8([32]byte{})
	_, _ = r.Read(out) // it never fails
	return out
}

func TestContentGoesWhereItFits(t *testing.T) {
	text := bytes.Repeat([]byte("kind: Task\n"), 1000)
	for name, test := range map[string]struct {
		data     []byte
		compress bool
		store    *memory
		support  bool
		where    string
		reason   resolve.Reason
		words    []string
	}{
		"small":                 {text[:100], true, &memory{}, false, "inline", "", nil},
		"neither":               {text, false, nil, true, "", resolve.ReasonTooLarge, []string{"11000 bytes", "limit of 1000 bytes"}},
		"compressed":            {text, true, &memory{}, true, "gzip", "", nil},
		"stored":                {text, false, &memory{}, true, "store", "", nil},
		"compressed and stored": {random(11000), true, &memory{}, true, "store", "", nil},
		"compressed in vain":    {random(11000), true, nil, true, "", resolve.ReasonTooLarge, []string{"11000 bytes", "when compressed", "limit of 1000 bytes"}},
		"too large":             {random(20001), true, &memory{}, true, "", resolve.ReasonTooLarge, []string{"20001 bytes", "limit of 20000 bytes"}},
		"an older API":          {text, true, &memory{}, false, "", resolve.ReasonTooLarge, []string{"11000 bytes", "limit of 1000 bytes", "no field"}},
		"a store that fails":    {text, false, &memory{err: errors.New("no room")}, true, "", resolve.ReasonUnavailable, []string{"11000 bytes", "no room"}},
	} {
		p := &placer{
			limit: 1000, most: 20000, compress: test.compress, turn: make(chan struct{}, 1),
			support: &support{ask: func() (bool, error) { return test.support, nil }, clock: clocktesting.NewFakeClock(time.Unix(0, 0))},
		}
		if test.store != nil {
			p.store = test.store
		}
		got, err := p.placeContent(t.Context(), test.data)
		if e, _ := errors.AsType[*resolve.Error](err); (err != nil) != (test.reason != "") || e != nil && e.Reason != test.reason {
			t.Errorf("%s: error %v, want reason %q", name, err, test.reason)
			continue
		}
		for _, w := range test.words {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: no %q in %v", name, w, err)
			}
		}
		where := ""
		switch {
		case got.ref != "" && len(got.data) == 0 && got.encoding == "" && bytes.Equal(test.store.got[0], test.data) && got.digest == schemaDigest(test.data):
			where = "store"
		case got.encoding == "gzip" && got.digest == schemaDigest(test.data) && bytes.Equal(inflate(t, got.data), test.data):
			where = "gzip"
		case bytes.Equal(got.data, test.data) && got.encoding+got.ref+got.digest == "":
			where = "inline"
		}
		if told := strings.Replace(where, "inline", "request", 1); err == nil && got.placeLabel() != told {
			t.Errorf("%s: the metric says %q", name, got.placeLabel())
		}
		if where != test.where {
			t.Errorf("%s: %+v, want it %q", name, got, test.where)
		}
	}
}

func inflate(t *testing.T, packed []byte) []byte {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(io.LimitReader(z, 1<<20))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestWhetherTheAPIHasTheFieldsIsAskedForAsLongAsItTakes(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Unix(0, 0))
	answers := []any{errors.New("down"), errors.New("down"), false, true}
	asked := 0
	s := &support{clock: clock, ask: func() (bool, error) {
		a := answers[asked]
		asked++
		if err, ok := a.(error); ok {
			return false, err
		}
		return a == true, nil
	}}
	done := make(chan bool)
	go func() {
		yes, err := s.askUntilAnswered(t.Context())
		done <- yes || err != nil
	}()
	for waiting := true; waiting; {
		select {
		case wrong := <-done:
			waiting = false
			if wrong || asked != 3 {
				t.Errorf("asked %d times, wrong %v", asked, wrong)
			}
		default:
			if clock.HasWaiters() {
				clock.Step(askRetry)
			}
		}
	}
	// A no holds for a while, a yes for good.
	for _, step := range []struct {
		after time.Duration
		yes   bool
		asked int
	}{{0, false, 3}, {askAgain - 1, false, 3}, {1, true, 4}, {time.Hour, true, 4}} {
		clock.Step(step.after)
		if yes, err := s.askUntilAnswered(t.Context()); err != nil || yes != step.yes || asked != step.asked {
			t.Errorf("%+v: %v %v, asked %d times", step, yes, err, asked)
		}
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	down := &support{clock: clock, ask: func() (bool, error) { return false, errors.New("down") }}
	if _, err := down.askUntilAnswered(canceled); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// patchedRequest returns the request after the patch.
func patchedRequest(r *v1beta1.ResolutionRequest, p patch) (*v1beta1.ResolutionRequest, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	out := &v1beta1.ResolutionRequest{}
	if p.form == mergePatch {
		if text, err = jsonpatch.MergePatch(text, p.text); err != nil {
			return nil, err
		}
		return out, json.Unmarshal(text, out)
	}
	operations, err := jsonpatch.DecodePatch(p.text)
	if err != nil {
		return nil, err
	}
	if text, err = operations.Apply(text); err != nil {
		return nil, err
	}
	return out, json.Unmarshal(text, out)
}

// The patch is put together from parts; it must be what the fields say, whatever the content is.
func TestThePatchHasTheContentInBase64(t *testing.T) {
	r := &v1beta1.ResolutionRequest{ObjectMeta: metav1.ObjectMeta{UID: "u", ResourceVersion: "7", Generation: 3}}
	for n := range 70 {
		data := bytes.Repeat([]byte("\x00\xff}\"{"), n)[:n]
		res := &resolve.Resource{Data: data, Annotations: map[string]string{"a": `"}}`}, Source: resolve.Source{URI: `x"}}`, Digest: resolve.SHA256(data)}}
		for _, conditions := range [][]v1beta1.Condition{nil, {{Type: "Other"}, {Type: "Succeeded", Status: metav1.ConditionUnknown}}} {
			r.Status.Conditions = conditions
			patch, err := patchFor(r, succeededStatus(res, kept{data: data}, time.Unix(0, 0)))
			if err != nil {
				t.Fatal(err)
			}
			got, err := patchedRequest(r, patch)
			if err != nil {
				t.Fatalf("%s: %v", patch.text, err)
			}
			back, err := base64.StdEncoding.DecodeString(got.Status.Data)
			if err != nil || !bytes.Equal(back, data) || got.Status.Annotations["a"] != `"}}` || got.Status.ObservedGeneration != 3 || got.UID != "u" || got.Status.RefSource == nil || !got.Status.Finished() {
				t.Errorf("%d bytes: %s: %v", n, patch.text, err)
			}
			if _, err := patchedRequest(&v1beta1.ResolutionRequest{ObjectMeta: metav1.ObjectMeta{UID: "v"}, Status: r.Status}, patch); conditions != nil && err == nil {
				t.Errorf("%d bytes: another request takes it", n)
			}
		}
	}
}

package resolution

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/api/resolution"
	"sluice.dev/api/resolution/v1beta1"
	"sluice.dev/resolve"
)

func TestTheTimeoutOfTheOperatorIsALimit(t *testing.T) {
	var limit Timeout
	for _, test := range []struct {
		text string
		want time.Duration
		ok   bool
	}{
		{"30s", 30 * time.Second, true},
		{"bad", 30 * time.Second, false},
		{"-1s", 30 * time.Second, false},
		{"100h", 30 * time.Second, false},
		{"", time.Minute, true},
	} {
		err := limit.Configure(map[string]string{TimeoutKey: test.text})
		if (err == nil) != test.ok || limit.Get() != test.want {
			t.Errorf("%q: %v, limit %s", test.text, err, limit.Get())
		}
	}
	for annotation, want := range map[string]time.Duration{"": time.Minute, "10s": 10 * time.Second, "5m": time.Minute, "x": time.Minute, "-3s": time.Minute} {
		r := &v1beta1.ResolutionRequest{ObjectMeta: metav1.ObjectMeta{
			CreationTimestamp: metav1.Unix(1000, 0), Annotations: map[string]string{resolution.AnnotationTimeout: annotation},
		}}
		if got := deadline(r, time.Minute).Sub(time.Unix(1000, 0)); got != want {
			t.Errorf("annotation %q: %s, want %s", annotation, got, want)
		}
	}
}

func TestMessagesAreOneBoundedLine(t *testing.T) {
	s := failed(&resolve.Error{Reason: resolve.ReasonNotFound, Msg: "a\r\n\tb\x00\xff %d" + strings.Repeat("x", 1<<20)}, time.Unix(0, 0))
	got := s.Conditions[0].Message
	if !strings.HasPrefix(got, "NotFound: a b ? %dxxx") || len(got) > maxMessage+100 {
		t.Errorf("%d bytes: %.60q", len(got), got)
	}
}

func TestAnnotationsAreBounded(t *testing.T) {
	res := &resolve.Resource{Annotations: map[string]string{"a": strings.Repeat("x", maxAnnotations)}}
	if e := checkAnnotations(res); e == nil || e.Reason != resolve.ReasonTooLarge {
		t.Errorf("%v", e)
	}
}

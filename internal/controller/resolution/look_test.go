package resolution

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/api/resolution"
	"sluice.dev/api/resolution/v1beta1"
)

func TestLookAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 15, 4, 5, 600, time.UTC)
	for text, want := range map[string]time.Time{
		"": {}, "now": now, "2026-01-02T15:00:00Z": time.Date(2026, 1, 2, 15, 0, 0, 0, time.UTC),
		"2026-01-02T15:00:00.25+01:00": time.Date(2026, 1, 2, 14, 0, 0, 250e6, time.UTC),
	} {
		got, err := lookAfter(&v1beta1.ResolutionRequest{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{resolution.AnnotationLookAfter: text}}}, now)
		if err != nil || !got.Equal(want) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"true", "5m", "yesterday", "2026-01-02"} {
		if got, err := lookAfter(&v1beta1.ResolutionRequest{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{resolution.AnnotationLookAfter: text}}}, now); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
}

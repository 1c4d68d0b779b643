package compat

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMetadataThatTheServerSetIsNoDifference(t *testing.T) {
	live := specCRD(t, "a: {type: string}")
	live.UID, live.Generation, live.ResourceVersion = "u", 3, "17"
	live.CreationTimestamp = metav1.Now()
	for _, f := range check(t, live, specCRD(t, "{a: {type: string}, b: {type: string}}")).Findings {
		t.Errorf("finding %s: %s", f.Rule, f.Message)
	}
}

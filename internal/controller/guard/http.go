package guard

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/internal/limit"
)

const (
	// Path is where the API server posts its requests.
	Path = "/validate-crds"

	// maxReview is more than two CRDs of the size that the API server takes (3 MB) have in JSON.
	maxReview = 8 << 20
	// maxTime is the longest that an API server waits for a webhook, and defaultTime what it waits unless told otherwise.
	maxTime, defaultTime = 30 * time.Second, 10 * time.Second
)

// ServeHTTP answers an AdmissionReview of admission.k8s.io/v1.
func (g *Guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), allowed(r.URL.Query().Get("timeout")))
	defer cancel()
	if end, ok := ctx.Deadline(); ok {
		// Where it is not supported the server's own bounds hold.
		_ = http.NewResponseController(w).SetReadDeadline(end)
	}
	select {
	case g.Requests <- struct{}{}:
		defer func() { <-g.Requests }()
	case <-ctx.Done():
		http.Error(w, "the guard is busy with other changes; try again", http.StatusServiceUnavailable)
		return
	}
	body, err := limit.ReadSized(r.Body, r.ContentLength, maxReview)
	if err != nil {
		status := http.StatusBadRequest
		if errors.Is(err, limit.ErrTooLarge) {
			status = http.StatusRequestEntityTooLarge
		}
		http.Error(w, "the review cannot be read: "+err.Error(), status)
		return
	}
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(body, &review); err != nil || review.Request == nil ||
		review.APIVersion != admissionv1.SchemeGroupVersion.String() || review.Kind != "AdmissionReview" {
		http.Error(w, "the body is no AdmissionReview of "+admissionv1.SchemeGroupVersion.String(), http.StatusBadRequest)
		return
	}
	answer, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: review.APIVersion, Kind: review.Kind}, Response: g.Review(ctx, review.Request),
	})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	// Who does not listen any more has given up.
	_, _ = w.Write(answer)
}

// allowed is how long an answer may take: what the API server waits, less some time for the way.
func allowed(timeout string) time.Duration {
	d, err := time.ParseDuration(timeout)
	if err != nil || d <= 0 {
		d = defaultTime
	}
	d = min(d, maxTime)
	return d - min(d/10, 500*time.Millisecond)
}

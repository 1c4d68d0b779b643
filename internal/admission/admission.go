// Package admission speaks the API server's protocol of admission webhooks: it reads an AdmissionReview of admission.k8s.io/v1
// over HTTP and writes the answer (k8s.io/apiserver/pkg/admission/plugin/webhook).
//
// It promises that a review takes bounded memory and time, whoever sends it. It does not decide what is admitted.
package admission

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
	// MaxReview is how many bytes a review may have: more than two objects of the size that the API server takes (3 MB) have
	// in JSON.
	MaxReview = 8 << 20
	// maxTime is the longest that an API server waits for a webhook, and defaultTime what it waits unless told otherwise.
	maxTime, defaultTime = 30 * time.Second, 10 * time.Second
)

// Serve answers one request with what answer says of its review, within the time that the API server waits. What the request takes
// until then comes from the intake. What is no review is refused with a code from 400 on, which the webhook's failure policy is for;
// so is a review of which answer returns nil, because what it takes to judge it is not known yet.
func Serve(w http.ResponseWriter, r *http.Request, in *Intake, answer func(context.Context, *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse) {
	within := allowedTime(r.URL.Query().Get("timeout"))
	ctx, cancel := context.WithTimeout(r.Context(), within)
	defer cancel()
	body, done, err := in.readBody(ctx, within, w, r)
	defer done()
	if err == nil {
		if err = in.awaitTurn(ctx); err == nil {
			defer func() { <-in.turns }()
		}
	}
	switch {
	case errors.Is(err, errBusy):
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	case errors.Is(err, limit.ErrTooLarge):
		http.Error(w, "the review cannot be read: "+err.Error(), http.StatusRequestEntityTooLarge)
		return
	case err != nil:
		http.Error(w, "the review cannot be read: "+err.Error(), http.StatusBadRequest)
		return
	}
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(body, &review); err != nil || review.Request == nil ||
		review.APIVersion != admissionv1.SchemeGroupVersion.String() || review.Kind != "AdmissionReview" {
		http.Error(w, "the body is no AdmissionReview of "+admissionv1.SchemeGroupVersion.String(), http.StatusBadRequest)
		return
	}
	response := answer(ctx, review.Request)
	if response == nil {
		http.Error(w, "what is in force here is not known yet; try again", http.StatusServiceUnavailable)
		return
	}
	text, err := json.Marshal(admissionv1.AdmissionReview{TypeMeta: metav1.TypeMeta{APIVersion: review.APIVersion, Kind: review.Kind}, Response: response})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	// Who does not listen any more has given up.
	_, _ = w.Write(text)
}

// allowedTime is how long an answer may take: what the API server waits, less some time for the way.
func allowedTime(timeout string) time.Duration {
	d, err := time.ParseDuration(timeout)
	if err != nil || d <= 0 {
		d = defaultTime
	}
	d = min(d, maxTime)
	return d - min(d/10, 500*time.Millisecond)
}

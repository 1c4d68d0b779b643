package guard

import (
	"net/http"

	"sluice.dev/internal/admission"
)

// Path is the path to which the API server posts its requests.
const Path = "/validate-crds"

// ServeHTTP answers an AdmissionReview of admission.k8s.io/v1.
func (g *Guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	admission.Serve(w, r, g.Requests, g.Review)
}

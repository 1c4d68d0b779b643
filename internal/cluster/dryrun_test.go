package cluster

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	webhookerrors "k8s.io/apiserver/pkg/admission/plugin/webhook/errors"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/rest"
)

// What admission refuses is told from what the validation of CRDs refuses, in the words of the API server's own code.
func TestWhoRefuses(t *testing.T) {
	kind, resource := apiextensionsv1.Kind("CustomResourceDefinition"), apiextensionsv1.Resource("customresourcedefinitions")
	policy := apierrors.NewForbidden(resource, "x", errors.New("ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no"))
	policy.ErrStatus.Reason, policy.ErrStatus.Code = metav1.StatusReasonInvalid, 422
	policy.ErrStatus.Details.Causes = []metav1.StatusCause{{Message: "no"}}
	for name, c := range map[string]struct {
		err    *apierrors.StatusError
		denied bool
	}{
		"a webhook":                      {webhookerrors.ToStatusErr("w.example.com", &metav1.Status{Message: "no"}), true},
		"a webhook with a code":          {webhookerrors.ToStatusErr("w.example.com", &metav1.Status{Message: "no", Code: 422, Reason: metav1.StatusReasonInvalid}), true},
		"a webhook that names a field":   {webhookerrors.ToStatusErr("w.example.com", &metav1.Status{Message: "no", Code: 422, Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Field: "spec"}}}}), true},
		"a policy":                       {policy, true},
		"a plugin":                       {apierrors.NewForbidden(resource, "x", errors.New("no")), true},
		"a webhook that does not answer": {apierrors.NewInternalError(&webhook.ErrCallingWebhook{WebhookName: "w.example.com", Reason: errors.New("no route")}), true},
		"a store that does not answer":   {apierrors.NewInternalError(errors.New("etcdserver: request timed out")), false},
		"a proxy in between":             {apierrors.NewGenericServerResponse(409, "put", resource, "x", "busy", 0, true), false},
		"the validation":                 {apierrors.NewInvalid(kind, "x", field.ErrorList{field.Required(field.NewPath("spec", "group"), "")}), false},
		"the validation of the whole":    {apierrors.NewInvalid(kind, "x", nil), false},
		"what cannot be read":            {apierrors.NewBadRequest("unknown field"), false},
		"the validation, of two reasons": {apierrors.NewInvalid(kind, "x", field.ErrorList{field.Required(nil, ""), field.Required(field.NewPath("spec"), "")}), false},
	} {
		if got := deniedByAdmission(c.err.Status()); got != c.denied {
			t.Errorf("%s: %t for %+v", name, got, c.err.Status())
		}
	}
}

// TestADryRunIsTriedAgainWhenOnlyTheStatusHasChanged: the API server writes the status of a CRD when it likes. A change of the CRD by
// somebody else is no answer about the CRD that was read.
func TestADryRunIsTriedAgainWhenOnlyTheStatusHasChanged(t *testing.T) {
	for name, tt := range map[string]struct {
		generation int64
		puts       int
		conflict   bool
	}{
		"the status": {1, 3, false},
		"the spec":   {2, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "widgets.example.com", UID: "u", Generation: 1, ResourceVersion: "1"}}
			version, puts := 1, 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				now := crd.DeepCopy()
				now.ResourceVersion, now.Generation = strconv.Itoa(version), tt.generation
				var answer any = now
				if r.Method == http.MethodPut {
					puts++
					if version < 3 {
						version++
					}
					var sent apiextensionsv1.CustomResourceDefinition
					if err := json.NewDecoder(r.Body).Decode(&sent); err != nil || sent.ResourceVersion != strconv.Itoa(version) || puts < 3 {
						w.WriteHeader(http.StatusConflict)
						conflict := apierrors.NewConflict(apiextensionsv1.Resource("customresourcedefinitions"), crd.Name, errors.New("modified")).Status()
						conflict.APIVersion, conflict.Kind = "v1", "Status"
						answer = conflict
					}
				}
				_ = json.NewEncoder(w).Encode(answer) // the client may be gone
			}))
			defer server.Close()
			c, err := For(&rest.Config{Host: server.URL})
			if err != nil {
				t.Fatal(err)
			}
			errs, err := c.DryRun(t.Context(), crd, crd)
			if len(errs) > 0 || apierrors.IsConflict(err) != tt.conflict || puts != tt.puts {
				t.Errorf("%v %v after %d attempts, want %d", errs, err, puts, tt.puts)
			}
		})
	}
}

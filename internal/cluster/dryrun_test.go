package cluster

import (
	"errors"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	webhookerrors "k8s.io/apiserver/pkg/admission/plugin/webhook/errors"
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
		"the validation":                 {apierrors.NewInvalid(kind, "x", field.ErrorList{field.Required(field.NewPath("spec", "group"), "")}), false},
		"the validation of the whole":    {apierrors.NewInvalid(kind, "x", nil), false},
		"what cannot be read":            {apierrors.NewBadRequest("unknown field"), false},
		"the validation, of two reasons": {apierrors.NewInvalid(kind, "x", field.ErrorList{field.Required(nil, ""), field.Required(field.NewPath("spec"), "")}), false},
	} {
		if got := denies(c.err.Status()); got != c.denied {
			t.Errorf("%s: %t for %+v", name, got, c.err.Status())
		}
	}
}

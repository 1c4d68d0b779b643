package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/rest"
)

const accessPath = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"

// MayDryRun says why the credentials may not ask with [Cluster.DryRun], which takes the verb update, and create for new CRDs. It
// is empty where they may.
func (c *Cluster) MayDryRun(ctx context.Context, verbs ...string) (why string, err error) {
	for _, verb := range verbs {
		review := authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Group: apiextensionsv1.GroupName, Resource: "customresourcedefinitions"},
		}}
		review.APIVersion, review.Kind = authorizationv1.SchemeGroupVersion.String(), "SelfSubjectAccessReview"
		if err := c.send(ctx, c.rest.Post().AbsPath(accessPath), &review, &review); err != nil {
			return "", explain(err)
		}
		if !review.Status.Allowed {
			return fmt.Sprintf("the credentials may not %s CustomResourceDefinitions", verb), nil
		}
	}
	return "", nil
}

// DryRun asks the API server whether it takes next in the place of live (nil: as a new CRD), admission included, and changes
// nothing. It returns what the server refuses, in its own words; an error says why there is no answer.
func (c *Cluster) DryRun(ctx context.Context, live, next *apiextensionsv1.CustomResourceDefinition) (field.ErrorList, error) {
	own := metav1.ObjectMeta{Name: next.Name, Labels: next.Labels, Annotations: next.Annotations, Finalizers: next.Finalizers, OwnerReferences: next.OwnerReferences}
	request := c.rest.Post().AbsPath(crdPath)
	if live != nil {
		request = c.rest.Put().AbsPath(crdPath, url.PathEscape(next.Name))
		kept := live.ObjectMeta.DeepCopy() // an update that does not name them keeps them, as kubectl apply does
		kept.Labels, kept.Annotations = merged(kept.Labels, own.Labels), merged(kept.Annotations, own.Annotations)
		kept.ResourceVersion, kept.ManagedFields = "", nil
		own = *kept
	}
	sent := apiextensionsv1.CustomResourceDefinition{TypeMeta: next.TypeMeta, ObjectMeta: own, Spec: next.Spec}
	sent.APIVersion, sent.Kind = apiextensionsv1.SchemeGroupVersion.String(), "CustomResourceDefinition"
	if live != nil {
		sent.ResourceVersion = live.ResourceVersion
	}
	err := c.send(ctx, request.Param("dryRun", metav1.DryRunAll), &sent, nil)
	var status apierrors.APIStatus
	if err == nil || !errors.As(err, &status) || !refuses(status.Status()) {
		return nil, explain(err)
	}
	return objections(status.Status()), nil
}

func merged(a, b map[string]string) map[string]string {
	out := maps.Clone(a)
	if out == nil {
		return b
	}
	maps.Copy(out, b)
	return out
}

// refuses tells whether the API server has looked at the CRD and does not want it.
func refuses(s metav1.Status) bool {
	return s.Code == http.StatusUnprocessableEntity || s.Code == http.StatusForbidden || s.Code == http.StatusBadRequest
}

// objections are the causes that the API server gives, or, of an admission plugin, its message.
func objections(s metav1.Status) field.ErrorList {
	var out field.ErrorList
	if s.Details != nil && s.Reason == metav1.StatusReasonInvalid {
		for _, cause := range s.Details.Causes {
			typ := field.ErrorType(cause.Type)
			out = append(out, &field.Error{
				Type: typ, Field: cause.Field, BadValue: field.OmitValueType{}, Detail: strings.TrimPrefix(cause.Message, typ.String()+": "),
			})
		}
	}
	if len(out) == 0 {
		_, said, found := strings.Cut(s.Message, " is forbidden: ")
		if !found {
			said = s.Message
		}
		out = field.ErrorList{{Type: field.ErrorTypeForbidden, Field: "spec", Detail: said}}
	}
	return out
}

// send sends an object as JSON, and reads the answer into out, where that is not nil.
func (c *Cluster) send(ctx context.Context, request *rest.Request, in, out any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, requestTimeout, errSlow)
	defer cancel()
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	result := request.SetHeader("Accept", "application/json").SetHeader("Content-Type", "application/json").Body(body).Do(ctx)
	if err := result.Error(); err != nil {
		return orCause(ctx, err)
	}
	if out == nil {
		return nil
	}
	raw, err := result.Raw()
	if err != nil {
		return orCause(ctx, err)
	}
	return json.Unmarshal(raw, out)
}

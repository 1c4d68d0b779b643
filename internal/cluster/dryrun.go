package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
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
// is empty if they may.
func (c *Cluster) MayDryRun(ctx context.Context, verbs ...string) (why string, err error) {
	for _, verb := range verbs {
		review := authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Group: apiextensionsv1.GroupName, Resource: "customresourcedefinitions"},
		}}
		review.APIVersion, review.Kind = authorizationv1.SchemeGroupVersion.String(), "SelfSubjectAccessReview"
		if err := c.sendJSON(ctx, c.rest.Post().AbsPath(accessPath), &review, &review); err != nil {
			return "", explainAccess(err)
		}
		if !review.Status.Allowed {
			return fmt.Sprintf("the credentials may not %s CustomResourceDefinitions", verb), nil
		}
	}
	return "", nil
}

// Denied is the error of a [Cluster.DryRun] that admission ended: a webhook, a policy, or a plugin of the API server.
type Denied struct {
	Says string // the message of the refusal
}

// Error implements error.
func (d *Denied) Error() string { return "admission refuses it: " + d.Says }

// DryRun asks the API server whether it accepts next in place of live (nil: as a new CRD), and changes nothing. It returns the errors
// of the server's validation. An error says why there is no answer; it may be a [Denied].
func (c *Cluster) DryRun(ctx context.Context, live, next *apiextensionsv1.CustomResourceDefinition) (field.ErrorList, error) {
	own := metav1.ObjectMeta{Name: next.Name, Labels: next.Labels, Annotations: next.Annotations, Finalizers: next.Finalizers, OwnerReferences: next.OwnerReferences}
	if live != nil {
		kept := live.ObjectMeta.DeepCopy() // an update that does not name them keeps them, as kubectl apply does
		kept.Labels, kept.Annotations = mergedMaps(kept.Labels, own.Labels), mergedMaps(kept.Annotations, own.Annotations)
		kept.ResourceVersion, kept.ManagedFields = "", nil
		own = *kept
	}
	sent := apiextensionsv1.CustomResourceDefinition{TypeMeta: next.TypeMeta, ObjectMeta: own, Spec: next.Spec}
	sent.APIVersion, sent.Kind = apiextensionsv1.SchemeGroupVersion.String(), "CustomResourceDefinition"
	err := c.tryCRD(ctx, live, &sent)
	var status apierrors.APIStatus
	if err == nil || !errors.As(err, &status) {
		return nil, explainAccess(err)
	}
	switch s := status.Status(); {
	case deniedByAdmission(s):
		_, says, found := strings.Cut(s.Message, " is forbidden: ")
		if !found {
			says = s.Message
		}
		return nil, &Denied{Says: says}
	case s.Code == http.StatusUnprocessableEntity, s.Code == http.StatusBadRequest:
		return validationErrors(s), nil
	}
	return nil, explainAccess(err)
}

// tryCRD sends a dry run. The API server itself changes the status of a CRD, also while it is deleted: if only that has changed since
// live was read, tryCRD tries again.
func (c *Cluster) tryCRD(ctx context.Context, live, sent *apiextensionsv1.CustomResourceDefinition) error {
	if live == nil {
		return c.sendJSON(ctx, c.rest.Post().AbsPath(crdPath).Param("dryRun", metav1.DryRunAll), sent, nil)
	}
	sent.ResourceVersion = live.ResourceVersion
	for attempt := 1; ; attempt++ {
		err := c.sendJSON(ctx, c.rest.Put().AbsPath(crdPath, url.PathEscape(sent.Name)).Param("dryRun", metav1.DryRunAll), sent, nil)
		if !apierrors.IsConflict(err) || attempt == 5 {
			return err
		}
		now, readErr := c.CRD(ctx, sent.Name)
		if readErr != nil {
			return readErr
		}
		if now == nil || now.UID != live.UID || now.Generation != live.Generation {
			return err
		}
		sent.ResourceVersion = now.ResourceVersion
	}
}

func mergedMaps(a, b map[string]string) map[string]string {
	out := maps.Clone(a)
	if out == nil {
		return b
	}
	maps.Copy(out, b)
	return out
}

// deniedByAdmission tells whether admission speaks and not the validation of CRDs. Webhooks choose their status code and say who they are
// (k8s.io/apiserver/pkg/admission/plugin/webhook/errors). All other admission starts as a 403; a policy may turn that into
// another code, but the causes that it adds name no field (k8s.io/apiserver/pkg/admission/plugin/policy/validating).
func deniedByAdmission(s metav1.Status) bool {
	if strings.HasPrefix(s.Message, `admission webhook "`) || s.Code == http.StatusForbidden {
		return true
	}
	if s.Code >= http.StatusInternalServerError { // a webhook that does not answer, or a fault of the API server or its store
		return strings.Contains(s.Message, "failed calling webhook ")
	}
	return s.Details != nil && len(s.Details.Causes) > 0 && !slices.ContainsFunc(s.Details.Causes, func(c metav1.StatusCause) bool {
		return c.Field != "" || c.Type == metav1.CauseTypeUnexpectedServerResponse // client-go's own word for an answer that is no Status
	})
}

// validationErrors are the causes that the validation gives, or its message.
func validationErrors(s metav1.Status) field.ErrorList {
	var out field.ErrorList
	if s.Details != nil {
		for _, cause := range s.Details.Causes {
			typ := field.ErrorType(cause.Type)
			out = append(out, &field.Error{
				Type: typ, Field: cause.Field, BadValue: field.OmitValueType{}, Detail: strings.TrimPrefix(cause.Message, typ.String()+": "),
			})
		}
	}
	if len(out) == 0 {
		out = field.ErrorList{{Type: field.ErrorTypeInvalid, Field: "spec", BadValue: field.OmitValueType{}, Detail: s.Message}}
	}
	return out
}

// sendJSON sends an object as JSON, and reads the answer into out, where that is not nil.
func (c *Cluster) sendJSON(ctx context.Context, request *rest.Request, in, out any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, RequestTimeout, ErrSlow)
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

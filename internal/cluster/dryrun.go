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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/rest"
)

// Would the API server accept a CRD? Its own validation answers, by a dry run. Admission may refuse the dry run first, and then
// nothing is known of the validation: that is a [Denied] and no finding. For example, a policy that forbids CRDs without an owner
// label says nothing about their schemas.

const (
	accessPath = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
	asJSON     = "application/json"
)

// MayDryRun says why the credentials may not ask with [Cluster.DryRun], which takes the verb update, and create for new CRDs. It
// is empty if they may.
func (c *Cluster) MayDryRun(ctx context.Context, verbs ...string) (why string, err error) {
	for _, verb := range verbs {
		allowed, err := c.May(ctx, authorizationv1.ResourceAttributes{Verb: verb, Group: apiextensionsv1.GroupName, Resource: "customresourcedefinitions"})
		if err != nil {
			return "", err
		}
		if !allowed {
			return fmt.Sprintf("the credentials may not %s CustomResourceDefinitions", verb), nil
		}
	}
	return "", nil
}

// May tells whether the credentials allow an access.
func (c *Cluster) May(ctx context.Context, access authorizationv1.ResourceAttributes) (bool, error) {
	review := authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &access}}
	review.APIVersion, review.Kind = authorizationv1.SchemeGroupVersion.String(), "SelfSubjectAccessReview"
	if err := c.sendJSON(ctx, c.rest.Post().SetHeader("Content-Type", asJSON).AbsPath(accessPath), &review, &review); err != nil {
		return false, explainAccess(err)
	}
	return review.Status.Allowed, nil
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
	errs, err := answerOf(c.tryCRD(ctx, live, &sent))
	if err != nil || len(errs) > 0 || live == nil {
		return errs, err
	}
	sent.ObjectMeta = metav1.ObjectMeta{Name: next.Name, Labels: next.Labels, Annotations: next.Annotations}
	return c.tryApplies(ctx, live, &sent)
}

// answerOf returns the errors of the server's validation that the error of a dry run has. Another error says why there are none.
func answerOf(err error) (field.ErrorList, error) {
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

// tryApplies applies a CRD that may be updated, by a dry run, once for each manager that has applied it before. An apply keeps the
// fields of other owners in what it removes, so it can be refused although an update is not: the CA that an injector wrote remains of
// a conversion. Who may not patch CRDs is not told about that.
func (c *Cluster) tryApplies(ctx context.Context, live, sent *apiextensionsv1.CustomResourceDefinition) (field.ErrorList, error) {
	body, err := json.Marshal(sent)
	if err != nil {
		return nil, err
	}
	var manifest map[string]any
	if err := json.Unmarshal(body, &manifest); err != nil {
		return nil, err
	}
	delete(manifest, "status")
	for _, e := range live.ManagedFields {
		if e.Operation != metav1.ManagedFieldsOperationApply || e.Subresource != "" {
			continue
		}
		request := c.rest.Patch(types.ApplyPatchType).AbsPath(crdPath, url.PathEscape(sent.Name)).
			Param("dryRun", metav1.DryRunAll).Param("force", "true").Param("fieldManager", e.Manager)
		err := c.sendJSON(ctx, request, manifest, nil)
		if apierrors.IsForbidden(err) {
			return nil, nil
		}
		errs, err := answerOf(err)
		if err != nil {
			return nil, err
		}
		for i, refusal := range errs {
			note := "in a server-side apply by " + e.Manager
			if i == 0 && strings.HasPrefix(refusal.Field, "spec.conversion") {
				note += ", " + keptConversion(live, e.Manager)
			}
			refusal.Detail = strings.TrimSpace(fmt.Sprintf("%s (%s)", refusal.Detail, note))
		}
		if len(errs) > 0 {
			return errs, nil
		}
	}
	return nil, nil
}

// keptConversion says which other managers own fields of a CRD's conversion, and how to remove them.
func keptConversion(live *apiextensionsv1.CustomResourceDefinition, manager string) string {
	var owners []string
	for _, e := range live.ManagedFields {
		if e.Manager != manager && e.FieldsV1 != nil && strings.Contains(e.FieldsV1.GetRawString(), `"f:conversion"`) && !slices.Contains(owners, e.Manager) {
			owners = append(owners, e.Manager)
		}
	}
	return fmt.Sprintf("which keeps the fields that belong to %s; remove them first: "+
		`kubectl patch crd %s --type=json -p '[{"op":"remove","path":"/spec/conversion"}]'`, strings.Join(owners, ", "), live.Name)
}

// tryCRD sends a dry run. The API server itself changes the status of a CRD, also while it is deleted: if only that has changed since
// live was read, tryCRD tries again.
func (c *Cluster) tryCRD(ctx context.Context, live, sent *apiextensionsv1.CustomResourceDefinition) error {
	if live == nil {
		return c.sendJSON(ctx, c.rest.Post().SetHeader("Content-Type", asJSON).AbsPath(crdPath).Param("dryRun", metav1.DryRunAll), sent, nil)
	}
	sent.ResourceVersion = live.ResourceVersion
	for attempt := 1; ; attempt++ {
		err := c.sendJSON(ctx, c.rest.Put().SetHeader("Content-Type", asJSON).AbsPath(crdPath, url.PathEscape(sent.Name)).Param("dryRun", metav1.DryRunAll), sent, nil)
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

// deniedByAdmission tells whether admission speaks and not the validation of CRDs. Webhooks choose their status code and say who they
// are (k8s.io/apiserver/pkg/admission/plugin/webhook/errors). All other admission starts as a 403; a policy may turn that into another
// code, but the causes that it adds name no field (k8s.io/apiserver/pkg/admission/plugin/policy/validating).
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
			detail := strings.TrimPrefix(strings.TrimPrefix(cause.Message, typ.String()), ": ")
			out = append(out, &field.Error{Type: typ, Field: cause.Field, BadValue: field.OmitValueType{}, Detail: detail})
		}
	}
	if len(out) == 0 {
		out = field.ErrorList{{Type: field.ErrorTypeInvalid, Field: "spec", BadValue: field.OmitValueType{}, Detail: s.Message}}
	}
	return out
}

// sendJSON sends an object as JSON, whose type the request names; nil for none. It reads the answer into out, where that is not nil.
func (c *Cluster) sendJSON(ctx context.Context, request *rest.Request, in, out any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, RequestTimeout, ErrSlow)
	defer cancel()
	if in != nil {
		body, err := json.Marshal(in)
		if err != nil {
			return err
		}
		request.Body(body)
	}
	result := request.SetHeader("Accept", asJSON).Do(ctx)
	// Error returns the API server's message. Raw and DoRaw return "unknown" for every refusal.
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

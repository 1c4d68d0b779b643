//go:build e2e

package enforcement

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/utils/clock"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/config"
	"sluice.dev/feature"
	"sluice.dev/internal/admission"
	"sluice.dev/internal/controller/features"
	"sluice.dev/tools/featuregen"
)

// hook is the webhook of the role feature-webhook, in the process of the test.
type hook struct {
	url    string
	bundle []byte
	client *http.Client
	// registered tells whether the API server asks it.
	registered bool
}

// with is the server for a test within the test.
func (s *server) with(t *testing.T) *server {
	out := *s
	out.T = t
	return &out
}

// serve runs the webhook for as long as the test does.
func (s *server) serve() *hook {
	s.Helper()
	crds, err := apiextensions.NewForConfig(s.admin)
	if err != nil {
		s.Fatal(err)
	}
	h := &features.Webhook{
		Cluster: features.Cluster{
			Config: s.admin, Kube: s.clients, CRDs: crds, Namespace: "default", Log: slog.New(slog.DiscardHandler), Clock: clock.RealClock{},
		},
		Metrics: features.NewMetrics(prometheus.NewRegistry()), Requests: admission.NewIntake(4),
	}
	ctx, cancel := context.WithCancel(s.Context())
	ready, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		h.Run(ctx, func() { close(ready) })
	}()
	s.Cleanup(func() {
		cancel()
		<-ended
	})
	<-ready
	mux := http.NewServeMux()
	mux.Handle(features.HookPattern, h)
	web := httptest.NewTLSServer(mux)
	s.Cleanup(web.Close)
	return &hook{url: web.URL, client: web.Client(), bundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw})}
}

// post asks the webhook as the API server does.
func (h *hook) post(ctx context.Context, component, what, user string, p pair) (*admissionv1.AdmissionResponse, error) {
	u := unstructured.Unstructured{Object: p.object}
	req := &admissionv1.AdmissionRequest{
		UID: "uid", Namespace: u.GetNamespace(), Name: u.GetName(), Operation: admissionv1.Create, UserInfo: authenticationv1.UserInfo{Username: user},
	}
	gv := u.GroupVersionKind().GroupVersion()
	req.Resource = metav1.GroupVersionResource{Group: gv.Group, Version: gv.Version, Resource: featuregen.Resource}
	var err error
	if req.Object.Raw, err = json.Marshal(p.object); err != nil {
		return nil, err
	}
	if p.old != nil {
		req.Operation = admissionv1.Update
		if req.OldObject.Raw, err = json.Marshal(p.old); err != nil {
			return nil, err
		}
	}
	body, err := json.Marshal(admissionv1.AdmissionReview{TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: req})
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url+"/features/"+component+"/"+what+"?timeout=30s", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	answer, err := h.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close() //nolint:errcheck // it was only read
	if answer.StatusCode != http.StatusOK {
		return nil, &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: int32(answer.StatusCode), Message: answer.Status}}
	}
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(answer.Body).Decode(&review); err != nil {
		return nil, err
	}
	if review.Response == nil || review.Response.UID != "uid" {
		return nil, fmt.Errorf("no answer: %v", review)
	}
	return review.Response, nil
}

// judge says why a request is refused, or what is written.
func (h *hook) judge(ctx context.Context, component, user string, p pair) (message string, object map[string]any, err error) {
	object = p.object
	resp, err := h.post(ctx, component, "drop", user, p)
	if err != nil {
		return "", nil, err
	}
	if !resp.Allowed {
		return "", nil, fmt.Errorf("what drops refuses: %v", resp.Result)
	}
	if resp.Patch != nil {
		if object, err = patched(object, resp.Patch); err != nil {
			return "", nil, err
		}
	}
	resp, err = h.post(ctx, component, "reject", user, pair{p.old, object})
	if err == nil && !resp.Allowed {
		message = resp.Result.Message
	}
	return message, object, err
}

func patched(object map[string]any, text []byte) (map[string]any, error) {
	before, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	patch, err := jsonpatch.DecodePatch(text)
	if err != nil {
		return nil, err
	}
	after, err := patch.Apply(before)
	if err != nil {
		return nil, fmt.Errorf("%s does not apply to %s: %w", text, before, err)
	}
	var out map[string]any
	return out, utiljson.Unmarshal(after, &out)
}

// forgotten tells whether the webhook has nothing to say of a component: it answers probes with a warning otherwise.
func (h *hook) forgotten(ctx context.Context, component string) error {
	resp, err := h.post(ctx, component, "probe", "", pair{})
	if err == nil && len(resp.Warnings) > 0 {
		err = errors.New("it is in force")
	}
	return err
}

// register has the API server ask the webhook for all that the component gates.
func (s *drawn) register() {
	s.Helper()
	s.hook.registered = true
	s.ask(s.hook, "gen", featuregen.Group, featuregen.Resource, 30)
}

func (s *drawn) unregister() {
	s.Helper()
	s.hook.registered = false
	s.askNoMore("gen")
}

// ask has the API server ask a webhook about a resource that a component gates, and wait for it so many seconds.
func (s *server) ask(h *hook, component, group, resource string, seconds int32) {
	s.Helper()
	rules := []admissionregistrationv1.RuleWithOperations{{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{group}, APIVersions: []string{"*"}, Resources: []string{resource}},
	}}
	at := func(what string) admissionregistrationv1.WebhookClientConfig {
		return admissionregistrationv1.WebhookClientConfig{URL: new(h.url + "/features/" + component + "/" + what), CABundle: h.bundle}
	}
	meta := func(kind string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: admissionregistrationv1.SchemeGroupVersion.String(), Kind: kind}
	}
	for _, o := range []runtime.Object{
		&admissionregistrationv1.ValidatingWebhookConfiguration{
			TypeMeta: meta("ValidatingWebhookConfiguration"), ObjectMeta: metav1.ObjectMeta{Name: component},
			Webhooks: []admissionregistrationv1.ValidatingWebhook{{
				Name: "reject." + component + ".sluice.dev", ClientConfig: at("reject"), Rules: rules, FailurePolicy: new(admissionregistrationv1.Fail), MatchPolicy: new(admissionregistrationv1.Exact),
				SideEffects: new(admissionregistrationv1.SideEffectClassNone), TimeoutSeconds: &seconds, AdmissionReviewVersions: []string{"v1"},
			}},
		},
		&admissionregistrationv1.MutatingWebhookConfiguration{
			TypeMeta: meta("MutatingWebhookConfiguration"), ObjectMeta: metav1.ObjectMeta{Name: component},
			Webhooks: []admissionregistrationv1.MutatingWebhook{{
				Name: "drop." + component + ".sluice.dev", ClientConfig: at("drop"), Rules: rules, FailurePolicy: new(admissionregistrationv1.Fail), MatchPolicy: new(admissionregistrationv1.Exact),
				SideEffects: new(admissionregistrationv1.SideEffectClassNone), TimeoutSeconds: &seconds, AdmissionReviewVersions: []string{"v1"},
			}},
		},
	} {
		s.apply(s.unstructured(o))
	}
}

// askNoMore takes back what ask has done.
func (s *server) askNoMore(component string) {
	s.Helper()
	ctx := context.WithoutCancel(s.Context())
	for _, resource := range []string{"validatingwebhookconfigurations", "mutatingwebhookconfigurations"} {
		err := s.dynamic.Resource(admissionregistrationv1.SchemeGroupVersion.WithResource(resource)).Delete(ctx, component, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			s.Error(err)
		}
	}
}

// enforceByHook has the webhook enforce all that a component gates of a resource, as where the API server has no policies. It waits
// ten seconds for an answer, as what the controller writes does. The component is there until the test has ended.
func (s *server) enforceByHook(m *feature.Model, group, resource string) {
	s.Helper()
	crds, err := config.FeatureCRDs()
	if err != nil {
		s.Fatal(err)
	}
	s.applyYAML(string(crds))
	c := &v1alpha1.Component{TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "Component"}, ObjectMeta: metav1.ObjectMeta{Name: m.Component()}, Spec: *m.Spec()}
	s.apply(s.unstructured(c))
	for _, f := range m.Features() {
		s.apply(s.unstructured(&v1alpha1.Feature{
			TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "Feature"}, ObjectMeta: metav1.ObjectMeta{Name: feature.ObjectName(m.Component(), f.Spec.Gate)}, Spec: f.Spec,
		}))
	}
	h := s.serve()
	s.ask(h, m.Component(), group, resource, 10)
	s.Cleanup(func() {
		s.askNoMore(m.Component())
		ctx := context.WithoutCancel(s.Context())
		for _, f := range m.Features() {
			if err := s.dynamic.Resource(v1alpha1.SchemeGroupVersion.WithResource("features")).Delete(ctx, feature.ObjectName(m.Component(), f.Spec.Gate), metav1.DeleteOptions{}); err != nil {
				s.Error(err)
			}
		}
		if err := s.dynamic.Resource(v1alpha1.SchemeGroupVersion.WithResource("components")).Delete(ctx, m.Component(), metav1.DeleteOptions{}); err != nil {
			s.Error(err)
		}
	})
}

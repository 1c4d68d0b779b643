//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/api/resolution"
	"sluice.dev/api/resolution/v1beta1"
	"sluice.dev/tools/clustertest"
)

// newRequest makes a request of the resolver; pairs are parameters and their values.
func newRequest(name, resolver string, pairs ...string) *v1beta1.ResolutionRequest {
	r := &v1beta1.ResolutionRequest{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if resolver != "" {
		r.Labels = map[string]string{resolution.LabelType: resolver}
	}
	for i := 0; i < len(pairs); i += 2 {
		r.Spec.Params = append(r.Spec.Params, v1beta1.Param{Name: pairs[i], Value: v1beta1.StringValue(pairs[i+1])})
	}
	return r
}

// create creates requests at once.
func (s *system) create(t *testing.T, ns string, requests ...*v1beta1.ResolutionRequest) {
	t.Helper()
	var wg sync.WaitGroup
	for chunk := range slices.Chunk(requests, max(1, (len(requests)+7)/8)) {
		wg.Go(func() {
			for _, r := range chunk {
				if _, err := s.client.ResolutionV1beta1().ResolutionRequests(ns).Create(t.Context(), r, metav1.CreateOptions{}); err != nil {
					t.Errorf("%s: %v", r.Name, err)
				}
			}
		})
	}
	wg.Wait()
}

// list returns the requests of a namespace by name, and how many of them have ended.
func (s *system) list(ctx context.Context, ns string) (map[string]*v1beta1.ResolutionRequest, int, error) {
	list, err := s.client.ResolutionV1beta1().ResolutionRequests(ns).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil, 0, err
	}
	out, ended := map[string]*v1beta1.ResolutionRequest{}, 0
	for i := range list.Items {
		r := &list.Items[i]
		out[r.Name] = r
		if r.Status.Finished() {
			ended++
		}
	}
	return out, ended, nil
}

// ended waits until all n requests of a namespace have ended.
func (s *system) ended(t *testing.T, ns string, n int) map[string]*v1beta1.ResolutionRequest {
	t.Helper()
	var out map[string]*v1beta1.ResolutionRequest
	eventually(t, fmt.Sprintf("%d requests to end", n), func(ctx context.Context) (err error) {
		var ended int
		out, ended, err = s.list(ctx, ns)
		if err == nil && ended != n {
			err = fmt.Errorf("%d of %d have ended", ended, len(out))
		}
		return err
	})
	return out
}

// resolve makes one request and waits for its end.
func (s *system) resolve(t *testing.T, ns string, r *v1beta1.ResolutionRequest) *v1beta1.ResolutionRequest {
	t.Helper()
	requests := s.client.ResolutionV1beta1().ResolutionRequests(ns)
	made, err := requests.Create(t.Context(), r, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return s.end(t, made)
}

// end waits for the end of a request.
func (s *system) end(t *testing.T, r *v1beta1.ResolutionRequest) *v1beta1.ResolutionRequest {
	t.Helper()
	var out *v1beta1.ResolutionRequest
	eventually(t, r.Name+" to end", func(ctx context.Context) (err error) {
		out, err = s.client.ResolutionV1beta1().ResolutionRequests(r.Namespace).Get(ctx, r.Name, metav1.GetOptions{})
		if err == nil && !out.Status.Finished() {
			err = errors.New("it is in progress")
		}
		return err
	})
	return out
}

// wantContent compares the content of a request that should have succeeded.
func wantContent(t *testing.T, r *v1beta1.ResolutionRequest, want string) {
	t.Helper()
	if c := r.Status.Succeeded(); c == nil || c.Status != metav1.ConditionTrue {
		t.Errorf("%s/%s has not succeeded: %+v", r.Namespace, r.Name, c)
		return
	}
	data, err := base64.StdEncoding.DecodeString(r.Status.Data)
	if err != nil || string(data) != want {
		t.Errorf("%s/%s has the content %q (%v), want %q", r.Namespace, r.Name, data, err, want)
	}
	if r.Status.ObservedGeneration != r.Generation {
		t.Errorf("%s/%s is of generation %d, its status of %d", r.Namespace, r.Name, r.Generation, r.Status.ObservedGeneration)
	}
}

// wantFailure compares why a request has failed; text is part of the message, which it returns.
func wantFailure(t *testing.T, r *v1beta1.ResolutionRequest, reason, text string) string {
	t.Helper()
	c := r.Status.Succeeded()
	if c == nil || c.Status != metav1.ConditionFalse {
		t.Errorf("%s/%s has not failed: %+v", r.Namespace, r.Name, c)
		return ""
	}
	if got := r.Status.Annotations[resolution.AnnotationReason]; got != reason || !strings.Contains(c.Message, text) {
		t.Errorf("%s/%s failed as %s: %s; want %s and %q", r.Namespace, r.Name, got, c.Message, reason, text)
	}
	if want := map[bool]string{true: resolution.ReasonTimedOut, false: resolution.ReasonFailed}[reason == resolution.ReasonTimedOut]; c.Reason != want {
		t.Errorf("%s/%s has the reason %s, want %s", r.Namespace, r.Name, c.Reason, want)
	}
	asked, err := json.Marshal(r.Spec)
	if err != nil {
		t.Fatal(err)
	}
	folders := strings.Contains(c.Message, "/tmp/") && !bytes.Contains(asked, []byte("/tmp/"))
	if r.Status.Data != "" || strings.Contains(c.Message, "%!(") || folders {
		t.Errorf("%s/%s has content, or a message that tells of folders: %s", r.Namespace, r.Name, c.Message)
	}
	return c.Message
}

// bind binds a ClusterRole to a ServiceAccount in a namespace.
func (s *system) bind(t *testing.T, namespace, name, role, accountNamespace, account string) {
	t.Helper()
	b := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: accountNamespace, Name: account}},
	}
	if _, err := s.kube.RbacV1().RoleBindings(namespace).Create(t.Context(), b, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	clustertest.AwaitRights(t, s.kube, namespace)
}

// allowCredentials lets a resolver read the credentials of a namespace, as its owner would.
func (s *system) allowCredentials(t *testing.T, namespace, role string) {
	t.Helper()
	s.bind(t, namespace, role+"-credentials", "sluice-resolver-credentials", systemNamespace, "sluice-"+role)
}

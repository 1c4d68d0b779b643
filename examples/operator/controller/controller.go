// Package controller makes ConfigMaps of pages. What a page shows depends on features, which it asks for in every
// reconciliation: they change while the operator runs.
package controller

import (
	"context"
	"crypto/sha256"
	"fmt"
	"html"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/featuregate"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	pagesv1 "sluice.dev/examples/operator/api/v1"
	"sluice.dev/examples/operator/features"
	"sluice.dev/feature/gate"
)

// Pages reconciles pages.
type Pages struct {
	Client client.Client
	Gates  *gate.Gates
}

// SetupWithManager adds the controller to a manager. When a feature is turned on or off, all pages are looked at again; when a
// namespace opts in or out, those of the namespace.
func (r *Pages) SetupWithManager(ctx context.Context, m ctrl.Manager) error {
	changes := make(chan event.GenericEvent, 1)
	r.Gates.OnChange(func([]featuregate.Feature) {
		select {
		case changes <- event.GenericEvent{Object: &pagesv1.Page{}}:
		default: // one is waiting already
		}
	})
	optedIn := make(chan event.GenericEvent, 100)
	r.Gates.OnNamespaceChange(func(namespace string) {
		select {
		case optedIn <- event.GenericEvent{Object: &pagesv1.Page{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}}}:
		case <-ctx.Done():
		}
	})
	all := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []ctrl.Request {
		var pages pagesv1.PageList
		if err := r.Client.List(ctx, &pages, client.InNamespace(o.GetNamespace())); err != nil {
			m.GetLogger().Error(err, "pages cannot be listed; what a feature changes comes with their next change")
			return nil
		}
		requests := make([]ctrl.Request, len(pages.Items))
		for i := range pages.Items {
			requests[i].NamespacedName = client.ObjectKeyFromObject(&pages.Items[i])
		}
		return requests
	})
	return ctrl.NewControllerManagedBy(m).For(&pagesv1.Page{}).Owns(&corev1.ConfigMap{}).
		WatchesRawSource(source.Channel(changes, all)).WatchesRawSource(source.Channel(optedIn, all)).Complete(r)
}

// Reconcile implements reconcile.Reconciler.
func (r *Pages) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var page pagesv1.Page
	if err := r.Client.Get(ctx, request.NamespacedName, &page); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	// A feature that is off may be on for this page, because its namespace has opted in.
	on := func(name featuregate.Feature) bool { return r.Gates.EnabledFor(ctx, name, &page) }
	text, shown := Render(on, &page.Spec)
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: page.Namespace, Name: page.Name}}
	if _, err := controllerutil.CreateOrUpdate(ctx, r.Client, cm, func() error {
		cm.Data = map[string]string{"page": text}
		if on(features.Signature) {
			cm.Data["digest"] = fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(text)))
		}
		return controllerutil.SetControllerReference(&page, cm, r.Client.Scheme())
	}); err != nil {
		return ctrl.Result{}, err
	}
	status := pagesv1.PageStatus{ObservedGeneration: page.Generation, Shown: shown}
	if equality.Semantic.DeepEqual(page.Status, status) {
		return ctrl.Result{}, nil
	}
	page.Status = status
	return ctrl.Result{}, r.Client.Status().Update(ctx, &page)
}

// Render writes a page. A page that was stored while a feature was on still has what the feature gates: the API server leaves
// it there, so the controller asks too.
func Render(on func(featuregate.Feature) bool, p *pagesv1.PageSpec) (text string, shown []string) {
	var b strings.Builder
	if p.Banner != nil && on(features.Banner) {
		fmt.Fprintf(&b, "*** %s ***\n", p.Banner.Text)
		shown = append(shown, "banner")
	}
	switch p.Format {
	case pagesv1.HTML:
		b.WriteString("<p>" + html.EscapeString(p.Text) + "</p>")
	case pagesv1.Markdown:
		// No gate is asked: a value that is stored is understood, from the first release that knows it.
		b.WriteString("# " + p.Text)
	case pagesv1.Plain, "":
		b.WriteString(p.Text)
	}
	return b.String(), append(shown, "text")
}

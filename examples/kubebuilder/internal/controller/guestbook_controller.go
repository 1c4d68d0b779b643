// Package controller has the controller of guestbooks.
package controller

import (
	"context"
	"fmt"
	"slices"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bookv1 "sluice.dev/examples/kubebuilder/api/v1"
	"sluice.dev/examples/kubebuilder/internal/features"
	"sluice.dev/feature/typed"
)

// GuestbookReconciler reconciles a Guestbook object.
type GuestbookReconciler struct {
	client.Client

	Gates typed.Enabler
}

// +kubebuilder:rbac:groups=book.example.dev,resources=guestbooks,verbs=get;list;watch
// +kubebuilder:rbac:groups=book.example.dev,resources=guestbooks/status,verbs=get;update;patch

// Reconcile counts the lines of a book.
func (r *GuestbookReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var book bookv1.Guestbook
	if err := r.Get(ctx, req.NamespacedName, &book); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	lines := int32(len(Page(r.Gates, &book.Spec))) //nolint:gosec // a book has 1,000 entries at most
	if book.Status.Lines == lines {
		return ctrl.Result{}, nil
	}
	book.Status.Lines = lines
	return ctrl.Result{}, r.Status().Update(ctx, &book)
}

// Page returns the lines of a book. What is stored is shown whatever is on; what is on decides about behaviour only.
func Page(gates typed.Enabler, book *bookv1.GuestbookSpec) (lines []string) {
	entries := slices.Clone(book.Entries)
	if book.Order == bookv1.Newest {
		slices.Reverse(entries)
	}
	if book.Title != "" {
		lines = append(lines, book.Title)
	}
	numbers := gates.Enabled(features.Numbers)
	for i, e := range entries {
		if numbers {
			e = fmt.Sprintf("%d. %s", i+1, e)
		}
		lines = append(lines, e)
	}
	return lines
}

// SetupWithManager sets up the controller with the Manager.
func (r *GuestbookReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).For(&bookv1.Guestbook{}).Named("guestbook").Complete(r)
}

package apply

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/internal/cli/command"
)

// tellKeeper warns if a Delivery manages the app: the Delivery creates deleted objects again and reverts changes.
// If Deliveries cannot be read, or the cluster has none, it prints nothing: the warning is a help, not a check.
func tellKeeper(ctx context.Context, e *command.Env, a *connection, app, undoes string) {
	client, err := dynamic.NewForConfig(a.config)
	if err != nil {
		return
	}
	d, err := client.Resource(v1alpha1.SchemeGroupVersion.WithResource("deliveries")).Namespace(a.namespace).Get(ctx, app, metav1.GetOptions{})
	if err != nil || d.GetDeletionTimestamp() != nil {
		return
	}
	if suspended, _, _ := unstructured.NestedBool(d.Object, "spec", "suspend"); suspended {
		return
	}
	fmt.Fprintf(e.Err, "warning: the Delivery %s/%s applies this app and will %s; suspend or delete the Delivery first (kubectl -n %s delete delivery %s)\n",
		a.namespace, app, undoes, a.namespace, app)
}

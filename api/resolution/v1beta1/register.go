package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"sluice.dev/api/resolution"
)

// SchemeGroupVersion is the group and version of the types of this package.
var SchemeGroupVersion = schema.GroupVersion{Group: resolution.GroupName, Version: "v1beta1"}

var (
	// SchemeBuilder collects what [AddToScheme] does.
	SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)
	// AddToScheme registers the types of this package.
	AddToScheme = SchemeBuilder.AddToScheme
)

// Resource qualifies the name of a resource with the group.
func Resource(resource string) schema.GroupResource {
	return SchemeGroupVersion.WithResource(resource).GroupResource()
}

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(SchemeGroupVersion, &ResolutionRequest{}, &ResolutionRequestList{})
	metav1.AddToGroupVersion(scheme, SchemeGroupVersion)
	return nil
}

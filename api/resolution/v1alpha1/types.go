package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/api/resolution/v1beta1"
)

// ResolutionRequest asks for a resource that lives elsewhere; see the type of that name in v1beta1.
//
// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
//
//nolint:modernize // omitempty is what every tool expects here; omitzero would change what is written
type ResolutionRequest struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ResolutionRequestSpec           `json:"spec,omitempty"`
	Status v1beta1.ResolutionRequestStatus `json:"status,omitempty"`
}

// ResolutionRequestList is a list of requests.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
//
//nolint:modernize // omitempty is what every tool expects here; omitzero would change what is written
type ResolutionRequestList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ResolutionRequest `json:"items"`
}

// ResolutionRequestSpec says what is asked for.
type ResolutionRequestSpec struct {
	// Params are the parameters of the resolver.
	Params map[string]string `json:"params,omitempty"`
}

package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ResolutionRequest asks for a resource that lives elsewhere. Its labels say which resolver is asked. The spec never
// changes after creation, the status never after it has finished.
//
// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type ResolutionRequest struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ResolutionRequestSpec   `json:"spec,omitempty"`
	Status ResolutionRequestStatus `json:"status,omitempty"`
}

// ResolutionRequestList is a list of requests.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type ResolutionRequestList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ResolutionRequest `json:"items"`
}

// ResolutionRequestSpec says what is asked for.
type ResolutionRequestSpec struct {
	// Params are the parameters of the resolver, in any order, each name once.
	Params []Param `json:"params,omitempty"`
	// URL is the location in one string; most resolvers take parameters only.
	URL string `json:"url,omitempty"`
}

// Param is a parameter.
type Param struct {
	// Name is that of the parameter.
	// A Delivery takes names of 1 to 128 characters.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Name string `json:"name"`
	// Value is a string, an array of strings or an object of strings.
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	Value ParamValue `json:"value"`
}

// ResolutionRequestStatus is the state of a request.
type ResolutionRequestStatus struct {
	// ObservedGeneration is the generation of the object that the conditions speak of.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions has one entry at most, of type Succeeded.
	Conditions []Condition `json:"conditions,omitempty"`
	// Annotations tell more about the content.
	Annotations map[string]string `json:"annotations,omitempty"`
	// Data is the content in base64 (RFC 4648, standard, padded); empty until it is there.
	Data string `json:"data"`
	// DataEncoding says what was done to the content before base64: gzip, or nothing where it is empty.
	DataEncoding string `json:"dataEncoding,omitempty"`
	// DataRef is where the content is that is too large for Data: in an OCI registry, REPOSITORY@sha256:DIGITS. Data is
	// empty then.
	DataRef string `json:"dataRef,omitempty"`
	// DataDigest is the digest of the content itself, sha256:DIGITS, and DataSize its size in bytes; both are there where
	// DataEncoding or DataRef is.
	DataDigest string `json:"dataDigest,omitempty"`
	DataSize   int64  `json:"dataSize,omitempty"`
	// Source equals RefSource, for older clients.
	Source *RefSource `json:"source"`
	// RefSource says where the content came from; nil if that is not known.
	RefSource *RefSource `json:"refSource"`
}

// EncodingGzip is the DataEncoding of content that was compressed (RFC 1952).
const EncodingGzip = "gzip"

// RefSource is the origin of a resource (SLSA provenance).
type RefSource struct {
	// URI names the place, for example git+https://example.com/repo.git.
	URI string `json:"uri,omitempty"`
	// Digest is the identity of the content: hexadecimal digits by algorithm.
	Digest map[string]string `json:"digest,omitempty"`
	// EntryPoint is the path or name inside the place.
	EntryPoint string `json:"entryPoint,omitempty"`
}

// Condition is one aspect of a status, in the form of knative.dev/pkg/apis.Condition.
type Condition struct {
	Type   string                 `json:"type"`
	Status metav1.ConditionStatus `json:"status"`
	// Severity is empty, which stands for Error, or Warning or Info.
	Severity           string      `json:"severity,omitempty"`
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitempty"`
	Reason             string      `json:"reason,omitempty"`
	Message            string      `json:"message,omitempty"`
}

package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is that of the types of this package.
var GroupVersion = schema.GroupVersion{Group: "pages.example.dev", Version: "v1"}

// Page is a page of text, of which the operator makes a ConfigMap of the same name.
//
// +kubebuilder:subresource:status
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type Page struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   PageSpec   `json:"spec,omitempty"`
	Status PageStatus `json:"status,omitempty"`
}

// PageList is a list of pages.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type PageList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Page `json:"items"`
}

// PageSpec is what the page says. A gated field is optional, has no default, and is left out of JSON when it is empty: an
// empty value that is written counts as a use.
type PageSpec struct {
	// Text is the page.
	// +kubebuilder:validation:MaxLength=100000
	Text string `json:"text"`
	// Format says how Text is written; empty stands for Plain.
	Format Format `json:"format,omitempty"`
	// Banner stands above the text.
	// +sluice:feature=Banner
	Banner *Banner `json:"banner,omitempty"`
}

// Banner is a line above a page.
type Banner struct {
	// Text is the line.
	// +kubebuilder:validation:MaxLength=1000
	Text string `json:"text"`
}

// Format is how a text is written.
//
// +kubebuilder:validation:Enum=Plain;HTML;Markdown
type Format string

// The formats.
const (
	Plain Format = "Plain"
	HTML  Format = "HTML"
	// Markdown is CommonMark.
	// +sluice:feature=Markdown
	Markdown Format = "Markdown"
)

// PageStatus is what has become of a page.
type PageStatus struct {
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Shown says which parts are shown.
	// +listType=atomic
	Shown []string `json:"shown,omitempty"`
}

// AddToScheme registers the types of this package.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &Page{}, &PageList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}

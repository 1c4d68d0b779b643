package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Order says which entry stands first.
// +kubebuilder:validation:Enum=Oldest;Newest;Random
type Order string

// The orders.
const (
	Oldest Order = "Oldest"
	Newest Order = "Newest"
	// Random is another order each time.
	// +sluice:feature=RandomOrder
	Random Order = "Random"
)

// GuestbookSpec defines the desired state of Guestbook.
type GuestbookSpec struct {
	// Title stands above the entries.
	// +kubebuilder:validation:MaxLength=100
	// +optional
	// +sluice:feature=BookTitle
	Title string `json:"title,omitempty"`
	// Order says which entry stands first.
	// +optional
	Order Order `json:"order,omitempty"`
	// Entries are the lines of the book.
	// +optional
	// +sluice:ifDisabled:name=LongBooks,marker="kubebuilder:validation:MaxItems=100"
	// +sluice:ifEnabled:name=LongBooks,marker="kubebuilder:validation:MaxItems=1000"
	Entries []string `json:"entries,omitempty"`
}

// GuestbookStatus defines the observed state of Guestbook.
type GuestbookStatus struct {
	// Lines are how many lines the page has.
	// +optional
	Lines int32 `json:"lines,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name=Title,type=string,JSONPath=`.spec.title`
// +kubebuilder:printcolumn:name=Lines,type=integer,JSONPath=`.status.lines`

// Guestbook is the Schema for the guestbooks API.
type Guestbook struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   GuestbookSpec   `json:"spec,omitempty"`
	Status GuestbookStatus `json:"status,omitempty"`
}

// +kubebuilder:object:root=true

// GuestbookList contains a list of Guestbook.
type GuestbookList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Guestbook `json:"items"`
}

package gate

// Where are the features of a program written down? In one Go value, from which the manifests for the cluster
// come as well, so that both cannot disagree.

import (
	"bytes"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
)

// Declaration is a component with its features: the one place where they are written down. It is only read.
type Declaration struct {
	// Name is that of the component.
	Name string
	// Spec is its definition. Release may be left out; [Options] give it then.
	Spec v1alpha1.ComponentSpec
	// Features are those of the component; Component may be left out in them.
	Features []v1alpha1.FeatureSpec
}

// Objects returns the Component and the Features as they are applied to a cluster.
func (d *Declaration) Objects() (*v1alpha1.Component, []v1alpha1.Feature) {
	version := v1alpha1.SchemeGroupVersion.String()
	c := &v1alpha1.Component{
		TypeMeta: metav1.TypeMeta{APIVersion: version, Kind: "Component"}, ObjectMeta: metav1.ObjectMeta{Name: d.Name}, Spec: *d.Spec.DeepCopy(),
	}
	features := make([]v1alpha1.Feature, len(d.Features))
	for i := range d.Features {
		spec := d.Features[i].DeepCopy()
		if spec.Component == "" {
			spec.Component = d.Name
		}
		features[i] = v1alpha1.Feature{
			TypeMeta:   metav1.TypeMeta{APIVersion: version, Kind: "Feature"},
			ObjectMeta: metav1.ObjectMeta{Name: feature.ObjectName(spec.Component, spec.Gate)}, Spec: *spec,
		}
	}
	return c, features
}

// Manifests returns the objects as a YAML stream, the Component first, then the Features in their order. sluice features compile -f
// and kubectl apply -f accept it.
func (d *Declaration) Manifests() ([]byte, error) {
	c, features := d.Objects()
	objects := []any{c}
	for i := range features {
		objects = append(objects, &features[i])
	}
	var out bytes.Buffer
	for _, o := range objects {
		u, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		if err != nil {
			return nil, err
		}
		delete(u, "status")
		data, err := yaml.Marshal(u)
		if err != nil {
			return nil, err
		}
		out.WriteString("---\n")
		out.Write(data)
	}
	return out.Bytes(), nil
}

// NewEnumValue returns a feature that introduces a new value of an enum in two releases, as Kubernetes does. From release known on, the
// program understands the value, and it stays where it is stored. So a rollback from the next release does not lose it. From release
// open on, every client can write it. Before that, the feature cannot be opened. Parts name the values.
func NewEnumValue(gate, known, open string, parts ...v1alpha1.Part) v1alpha1.FeatureSpec {
	no := false
	return v1alpha1.FeatureSpec{Gate: gate, Parts: parts, Ratchet: v1alpha1.InUse, Stages: []v1alpha1.FeatureStage{
		{Stage: v1alpha1.Beta, Release: known, Default: &no, LockToDefault: true},
		{Stage: v1alpha1.Stable, Release: open},
	}}
}

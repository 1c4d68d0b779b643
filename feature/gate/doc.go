// Package gate gives a program the features that its authors declared. They declare them once, as Go values, and the manifests for
// the cluster come from the same values.
//
//	var Features = gate.Declaration{
//		Name: "demo",
//		Spec: v1alpha1.ComponentSpec{ConfigMap: &v1alpha1.ConfigMapReference{Namespace: "demo-system", Name: "feature-flags"}},
//		Features: []v1alpha1.FeatureSpec{{
//			Gate:   "FastPath",
//			Stages: []v1alpha1.FeatureStage{{Stage: v1alpha1.Alpha, Release: "v0.1.0"}},
//		}},
//	}
//
//	gates, err := gate.New(Features, gate.Options{Release: version})
//	gates.AddFlags(flags)
//	... flags are parsed ...
//	err = gates.Begin()
//	if gates.Enabled("FastPath") { ... }
//
// Settings come from --feature-gates, the environment, a file and the component's ConfigMap; the first of these that mentions a
// gate takes precedence. Package feature alone decides whether a feature is on, by the same table as the admission policies.
// Package feature/process brings the ConfigMap, and reports the gates of the process to the cluster.
//
// It promises:
//   - it reports all errors of settings at once, each with the nearest name. Settings with an error change nothing: the last good
//     ones of that source stay;
//   - [Gates.Enabled] never panics, takes no lock, and answers from one consistent state;
//   - a feature whose definition says needsRestart, and the features that it requires, keep their values from [Gates.Begin] on;
//   - the gate of k8s.io/component-base that [Gates.FeatureGate] returns, and the metric kubernetes_feature_enabled, agree with
//     Enabled.
//
// It knows no cluster, reads no environment of its own and starts no goroutine.
package gate

// Package gate gives a program the features that its authors declared: once, as Go values, from which manifests for the
// cluster are made as well.
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
// Settings come from --feature-gates, the environment, a file and the component's ConfigMap; what the first of them says of a
// gate wins, and whether a feature is on is decided by package feature alone, by the same table that the admission policies
// follow. Package feature/process brings the ConfigMap and reports to the cluster with which gates the process runs.
//
// It promises:
//   - all errors of settings are told at once, each with the nearest name; settings with an error change nothing: the last
//     good ones of that source stay;
//   - [Gates.Enabled] never panics, takes no lock, and answers from one consistent state;
//   - a feature whose definition says needsRestart, and what it requires, keeps its value from [Gates.Begin] on;
//   - the gate of k8s.io/component-base that [Gates.FeatureGate] returns, and the metric kubernetes_feature_enabled, say the
//     same as Enabled.
//
// It knows no cluster, reads no environment of its own and starts no goroutine.
package gate

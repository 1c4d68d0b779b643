// Package life follows features from a marker in Go to their end. It reads features.yaml (a [File]) and the Go types that its
// markers stand in, with the loader and the markers of controller-tools, and brings both together in a [Project]; from that it
// writes manifests, Go code, CRDs and documentation.
//
//	features.yaml --- Read --- File ----.
//	                                     Load --- Project --- Outputs --- Write
//	Go packages --- readGo --- marks ---'
//
// All that is wrong is told at once, each with file and line ([Problems]). It does not decide what a definition of a feature
// means or whether it is right: package feature does.
package life

// Package life manages features from their first marker in Go to their removal. It reads features.yaml (a [File]), and the Go types
// with markers, with the loader and the markers of controller-tools. It joins both in a [Project], and writes manifests, Go code, CRDs
// and documentation from that.
//
//	features.yaml --- Read --- File ----.
//	                                     Load --- Project --- Outputs --- Write
//	Go packages --- readGo --- marks ---'
//
// It reports all errors at once, each with file and line ([Problems]). It does not decide what a definition of a feature means or
// whether it is valid: package feature does.
package life

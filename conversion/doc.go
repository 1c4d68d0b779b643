// Package conversion checks the conversions between the versions of a CRD. It makes objects of each version, has a [Converter] convert
// them to each other version and back, and reports what is lost, added, refused or pruned on the way, each with the smallest object that
// shows it. It also tells which parts of the schemas the objects reached.
//
// What it promises: each object is one that the API server accepts in its version, with the defaults that the API server fills in before
// it converts. The steps around the converter are those of
// k8s.io/apiextensions-apiserver/pkg/apiserver/conversion/webhook_converter.go and pkg/apiserver/customresource_handler.go: the answer is
// checked, metadata but labels and annotations is restored, fields that the target does not declare are pruned. The same seed gives the
// same objects.
//
// What it does not decide: that no other object is lost. It shows losses by examples, which reach every declared part that an object can
// have. Severities are for the caller's configuration. It starts no program and opens no connection; converters do.
package conversion

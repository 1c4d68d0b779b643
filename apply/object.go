package apply

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"

	"sluice.dev/apply/kapprules"
)

// This file reads manifests. It makes an [Object] of each: its identity, the annotations that say how it is applied, and the body of
// the request. What only the server writes is dropped, so that the output of kubectl get can be applied. For example, status goes
// from built-in kinds, but stays in custom ones, which may have no status subresource.

// ID identifies an object in a cluster. Two API versions of an object have the same ID.
type ID struct {
	Group     string `json:"group,omitempty"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// GroupKind is the kind with its group; its text is KIND[.GROUP].
func (i ID) GroupKind() schema.GroupKind { return schema.GroupKind{Group: i.Group, Kind: i.Kind} }

// String returns KIND[.GROUP] [NAMESPACE/]NAME.
func (i ID) String() string {
	name := i.Name
	if i.Namespace != "" {
		name = i.Namespace + "/" + name
	}
	return i.GroupKind().String() + " " + name
}

// Compare orders IDs by group, kind, namespace and name.
func (i ID) Compare(o ID) int {
	return cmp.Or(
		cmp.Compare(i.Group, o.Group), cmp.Compare(i.Kind, o.Kind), cmp.Compare(i.Namespace, o.Namespace), cmp.Compare(i.Name, o.Name),
	)
}

// Object is an object of the source, as it should be in the cluster.
type Object struct {
	ID
	// Version is the API version without its group.
	Version string
	// File and Line are the position in the source. Line counts from 1; 0 is unknown.
	File string
	Line int

	// json is the body of the request: the manifest without fields that only the server writes.
	json []byte
	// hook has the events of Helm that the object is for; nil for none.
	hook []string
	// marks is the meaning of the annotations of other tools.
	marks marks
	// replace: the apply may delete and create the object again if immutable fields differ.
	replace bool
	// ignore lists fields that keep the cluster's values; nil for none.
	ignore *kapprules.RebaseRule
}

// GVK returns group, version and kind.
func (o *Object) GVK() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: o.Group, Version: o.Version, Kind: o.Kind}
}

// isCRD reports whether the object is a CustomResourceDefinition.
func (i ID) isCRD() bool {
	return i.Group == "apiextensions.k8s.io" && i.Kind == "CustomResourceDefinition"
}

// isSecret reports whether the object is a Secret. Its content is neither recorded nor shown.
func (i ID) isSecret() bool { return i.Group == "" && i.Kind == "Secret" }

// Error is a problem with one object.
type Error struct {
	// File and Line are the position of the object in the source. File may be empty, Line 0.
	File string
	Line int
	// ID may be the zero value if the object has none.
	ID  ID
	Err error
}

// Error implements error: FILE:LINE: OBJECT: problem.
func (e *Error) Error() string {
	var b strings.Builder
	switch {
	case e.File != "" && e.Line > 0:
		fmt.Fprintf(&b, "%s:%d: ", e.File, e.Line)
	case e.File != "":
		fmt.Fprintf(&b, "%s: ", e.File)
	}
	if e.ID != (ID{}) {
		fmt.Fprintf(&b, "%s: ", e.ID)
	}
	return b.String() + e.Err.Error()
}

// Unwrap returns e.Err.
func (e *Error) Unwrap() error { return e.Err }

// serverFields are fields of metadata that only the server writes. With managedFields the server would refuse an apply. uid and
// resourceVersion would tie the manifest to one object.
var serverFields = []string{"managedFields", "resourceVersion", "uid", "generation", "selfLink", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"}

// NewObject reads a manifest: an object in JSON. It drops fields that only the server writes, so that the output of kubectl get can
// be applied. The error is a [*Error].
func NewObject(file string, line int, manifest []byte) (Object, error) {
	o := Object{File: file, Line: line}
	fail := func(format string, args ...any) (Object, error) {
		return o, &Error{File: file, Line: line, ID: o.ID, Err: fmt.Errorf(format, args...)}
	}
	content, err := decodeObject(manifest)
	if err != nil {
		return fail("is no object in JSON: %w", err)
	}
	version, _ := content["apiVersion"].(string)
	kind, _ := content["kind"].(string)
	if version == "" || kind == "" {
		return fail("an object without apiVersion or kind")
	}
	gv, err := schema.ParseGroupVersion(version)
	if err != nil || gv.Version == "" {
		return fail("apiVersion %q is not GROUP/VERSION", version)
	}
	o.Kind, o.Group, o.Version = kind, gv.Group, gv.Version
	meta, ok := content["metadata"].(map[string]any)
	if !ok {
		return fail("has no metadata")
	}
	if o.Name, o.Namespace, err = nameIn(meta); err != nil {
		return fail("%w", err)
	}
	for _, f := range serverFields {
		delete(meta, f)
	}
	delete(meta, "generateName")
	// The marks of ownership come from this apply. The manifest may have been read from a cluster, with marks of another app.
	removeMetadataTexts(meta, "annotations", AnnotationApp, annotationMadeBy)
	removeMetadataTexts(meta, "labels", LabelApp)
	annotations, _ := meta["annotations"].(map[string]any)
	o.hook = hookEvents(annotations)
	o.marks = marksOf(content)
	if err := o.readAnnotations(annotations); err != nil {
		return fail("%w", err)
	}
	if o.isCRD() || !strings.Contains(o.Group, ".") || strings.HasSuffix(o.Group, ".k8s.io") {
		delete(content, "status")
	}
	if o.isSecret() {
		if err := stringData(content); err != nil {
			return fail("%w", err)
		}
	}
	return o, o.setContent(content)
}

// readAnnotations reads the annotations that say how the object is applied.
func (o *Object) readAnnotations(annotations map[string]any) (err error) {
	if o.replace, err = onImmutable(o.ID, annotations); err != nil {
		return err
	}
	if o.ignore, err = ignoreRuleOf(annotations); err != nil {
		return err
	}
	return checkReady(annotations)
}

// nameIn returns the name and the namespace in metadata.
func nameIn(meta map[string]any) (name, namespace string, err error) {
	name, _ = meta["name"].(string)
	namespace, _ = meta["namespace"].(string)
	prefix, _ := meta["generateName"].(string)
	switch {
	case name == "" && prefix != "":
		return name, namespace, errors.New("has generateName: each apply would make another one; give it a name")
	case name == "":
		return name, namespace, errors.New("has no metadata.name")
	case strings.ContainsAny(name+namespace, "/%") || name == "." || name == "..":
		return name, namespace, errors.New("its name is none that Kubernetes allows")
	}
	return name, namespace, nil
}

// stringData moves stringData of a Secret into data, as the server does. Nobody owns fields that are written through stringData, so
// Sluice could neither compare nor remove them.
func stringData(content map[string]any) error {
	plain, ok := content["stringData"].(map[string]any)
	if !ok {
		return nil
	}
	data, _ := content["data"].(map[string]any)
	if data == nil {
		data = map[string]any{}
	}
	for k, v := range plain {
		text, ok := v.(string)
		if !ok {
			return fmt.Errorf("stringData.%s is no text", k)
		}
		data[k] = base64.StdEncoding.EncodeToString([]byte(text))
	}
	delete(content, "stringData")
	content["data"] = data
	return nil
}

// setContent replaces the content.
func (o *Object) setContent(content map[string]any) error {
	b, err := json.Marshal(content)
	if err != nil {
		return &Error{File: o.File, Line: o.Line, ID: o.ID, Err: err}
	}
	o.json = b
	return nil
}

// decodeContent decodes the body of the request.
func (o *Object) decodeContent() (map[string]any, error) { return decodeObject(o.json) }

// metadataOf returns the metadata of an object; nil if it has none.
func metadataOf(obj map[string]any) map[string]any {
	meta, _ := obj["metadata"].(map[string]any)
	return meta
}

// annotationsOf returns the annotations of an object; nil if it has none.
func annotationsOf(obj map[string]any) map[string]any {
	annotations, _ := metadataOf(obj)["annotations"].(map[string]any)
	return annotations
}

// moveToNamespace puts the object into a namespace; an empty one removes the namespace. content is the decoded body.
func (o *Object) moveToNamespace(content map[string]any, namespace string) {
	meta := metadataOf(content)
	if o.Namespace = namespace; namespace != "" {
		meta["namespace"] = namespace
	} else {
		delete(meta, "namespace")
	}
}

// addMetadataTexts adds annotations or labels to a content.
func addMetadataTexts(content map[string]any, to string, texts map[string]string) {
	if len(texts) == 0 {
		return
	}
	meta := metadataOf(content)
	have, _ := meta[to].(map[string]any)
	if have == nil {
		have = map[string]any{}
	}
	for k, v := range texts {
		have[k] = v
	}
	meta[to] = have
}

// removeMetadataTexts removes annotations or labels.
func removeMetadataTexts(meta map[string]any, from string, keys ...string) {
	have, _ := meta[from].(map[string]any)
	for _, k := range keys {
		delete(have, k)
	}
	if have != nil && len(have) == 0 {
		delete(meta, from)
	}
}

// contentDigest identifies the body of the request.
func (o *Object) contentDigest() string { return digestOf(o.json) }

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}

// decodeObject reads an object in JSON as Kubernetes does: integers become int64.
func decodeObject(b []byte) (map[string]any, error) {
	var v map[string]any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(b, &v); err != nil {
		return nil, err
	}
	if v == nil {
		return nil, errors.New("null")
	}
	return v, nil
}

// Unique removes duplicates. The same object with different content is an error.
func Unique(objects []Object) ([]Object, error) {
	return uniqueBy(objects, func(o *Object) *Object { return o })
}

// uniqueBy is [Unique] for what has objects in it.
func uniqueBy[T any](list []T, objectIn func(*T) *Object) (out []T, err error) {
	var errs []error
	seen := map[ID]*Object{}
	for one := range eachOf(list) {
		o := objectIn(one)
		first, twice := seen[o.ID]
		if !twice {
			seen[o.ID] = o
			out = append(out, *one)
			continue
		}
		if first.Version != o.Version || !bytes.Equal(first.json, o.json) {
			errs = append(errs, &Error{File: o.File, Line: o.Line, ID: o.ID, Err: fmt.Errorf("stands with other content at %s:%d already", first.File, first.Line)})
		}
	}
	return out, errors.Join(errs...)
}

func isNamespace(id ID) bool { return id.Group == "" && id.Kind == "Namespace" }

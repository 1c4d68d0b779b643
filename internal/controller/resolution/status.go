package resolution

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/api/resolution"
	"sluice.dev/api/resolution/v1beta1"
	"sluice.dev/internal/brief"
	"sluice.dev/resolve"
)

// This file makes the status of a request and the patch that writes it. The status has to fit Tekton's schema too, which demands
// fields that a failed request has no use for. A patch fails if the request is no longer as it was read, so two processes cannot both
// finish it.

const (
	// DefaultMaxData is the default of the limit of content, in bytes before base64: etcd takes objects up to 1.5 MiB.
	DefaultMaxData = 1 << 20
	// maxAnnotations bounds what a resolver writes into annotations, in bytes.
	maxAnnotations = 64 << 10
	maxMessage     = 4 << 10
)

// statusPatch is a merge patch of a status. UID and resource version make it fail if the object is not the one that was read. It is
// for requests without a condition, of which a patch could test nothing else.
type statusPatch struct {
	Metadata struct {
		UID             types.UID `json:"uid"`
		ResourceVersion string    `json:"resourceVersion"`
	} `json:"metadata"`
	Status statusFields `json:"status"`
}

type statusFields struct {
	ObservedGeneration int64               `json:"observedGeneration"`
	Conditions         []v1beta1.Condition `json:"conditions"`
	Annotations        map[string]string   `json:"annotations,omitempty"`
	DataEncoding       string              `json:"dataEncoding,omitempty"`
	DataRef            string              `json:"dataRef,omitempty"`
	DataDigest         string              `json:"dataDigest,omitempty"`
	DataSize           int64               `json:"dataSize,omitempty"`
	Source             *v1beta1.RefSource  `json:"source,omitempty"`
	RefSource          *v1beta1.RefSource  `json:"refSource,omitempty"`

	// NoData is the field data of a request that has failed; data is that field before base64.
	NoData *string `json:"data,omitempty"`
	data   []byte
}

// patch is a patch of a status in one of the two forms.
type patch struct {
	form types.PatchType
	text []byte
}

// patchFor returns the patch for the object as it was read. If that has the condition Unknown, the patch tests the UID and the
// condition, so that other writes in between do not make it fail.
//
// A merge patch with the resource version fails after any other write. A JSON patch with tests fails only if the condition is another
// one by now, but it needs a condition that it can test.
func patchFor(r *v1beta1.ResolutionRequest, s statusFields) (patch, error) {
	s.ObservedGeneration = r.Generation
	at := slices.IndexFunc(r.Status.Conditions, func(c v1beta1.Condition) bool { return c.Type == resolution.ConditionSucceeded })
	if at >= 0 && r.Status.Conditions[at].Status == metav1.ConditionUnknown {
		text, err := testingPatch(r.UID, at, s)
		return patch{types.JSONPatchType, text}, err
	}
	var p statusPatch
	p.Metadata.UID, p.Metadata.ResourceVersion = r.UID, r.ResourceVersion
	p.Status = s
	text, err := json.Marshal(p)
	if err == nil && len(s.data) > 0 {
		// The patch ends with the braces of its status and its own.
		text = withContent(text[:len(text)-2], `,"data":"`, s.data, `"}}`)
	}
	return patch{mergePatch, text}, err
}

// operation is one of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// testingPatch returns the JSON patch that tests the UID, and the condition with that index.
func testingPatch(uid types.UID, at int, s statusFields) ([]byte, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		return nil, err
	}
	condition := fmt.Sprintf("/status/conditions/%d/", at)
	all := []operation{
		{"test", "/metadata/uid", uid}, {"test", condition + "type", resolution.ConditionSucceeded}, {"test", condition + "status", metav1.ConditionUnknown},
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		all = append(all, operation{"add", "/status/" + name, fields[name]})
	}
	if text, err = json.Marshal(all); err == nil && len(s.data) > 0 {
		text = withContent(text[:len(text)-1], `,{"op":"add","path":"/status/data","value":"`, s.data, `"}]`)
	}
	return text, err
}

// withContent appends content in base64. It is encoded in place, because it is most of a patch, and many patches are written at once.
func withContent(text []byte, before string, data []byte, after string) []byte {
	out := make([]byte, 0, len(text)+len(before)+base64.StdEncoding.EncodedLen(len(data))+len(after))
	out = append(append(out, text...), before...)
	return append(base64.StdEncoding.AppendEncode(out, data), after...)
}

func succeededCondition(status metav1.ConditionStatus, reason, message string, now time.Time) []v1beta1.Condition {
	return []v1beta1.Condition{{
		Type: resolution.ConditionSucceeded, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(now),
	}}
}

// succeededStatus is the status of a request whose resource was found; k says where its content is.
func succeededStatus(res *resolve.Resource, k kept, now time.Time) statusFields {
	origin := &v1beta1.RefSource{URI: res.Source.URI, Digest: res.Source.Digest, EntryPoint: res.Source.EntryPoint}
	s := statusFields{
		Conditions:  succeededCondition(metav1.ConditionTrue, "", "", now),
		Annotations: res.Annotations, data: k.data, DataEncoding: k.encoding, DataRef: k.ref, DataDigest: k.digest,
		Source: origin, RefSource: origin,
	}
	if k.digest != "" {
		s.DataSize = int64(len(res.Data))
	}
	return s
}

// failedStatus is the status of a request that failed. The condition has one of the two reasons that Tekton's clients know; the exact
// one is before the message, and in an annotation.
func failedStatus(e *resolve.Error, now time.Time) statusFields {
	reason, message := resolution.ReasonFailed, cleanLine(e.Msg)
	switch e.Reason { //nolint:exhaustive // the default is for all that Tekton has no reason for
	case resolve.ReasonTimedOut:
		reason = resolution.ReasonTimedOut
	case resolve.ReasonFailed, "":
	default:
		message = string(e.Reason) + ": " + message
	}
	exact := cmp.Or(string(e.Reason), resolution.ReasonFailed)
	// Tekton's CRD demands data, source and refSource in every status, and a merge patch cannot set null.
	return statusFields{
		Conditions:  succeededCondition(metav1.ConditionFalse, reason, message, now),
		Annotations: map[string]string{resolution.AnnotationReason: exact},
		NoData:      new(string), Source: &v1beta1.RefSource{}, RefSource: &v1beta1.RefSource{},
	}
}

// asError turns an error that is no *resolve.Error into a permanent one.
func asError(err error) *resolve.Error {
	if e, ok := errors.AsType[*resolve.Error](err); ok {
		return e
	}
	return &resolve.Error{Reason: resolve.ReasonFailed, Msg: err.Error(), Err: err}
}

// checkAnnotations refuses annotations that do not fit into an object.
func checkAnnotations(res *resolve.Resource) *resolve.Error {
	n := 0
	for k, v := range res.Annotations {
		n += len(k) + len(v)
	}
	if n > maxAnnotations {
		return resolve.Errorf(resolve.ReasonTooLarge, "the annotations of the content have %d bytes, over the limit of %d", n, maxAnnotations)
	}
	return nil
}

// cleanLine makes one line of bounded length.
func cleanLine(s string) string { return brief.Clip(brief.OneLine(s), maxMessage) }

// deadlineOf is the time when a request times out: after the operator's limit, or after the time in its annotation if that is shorter.
func deadlineOf(r *v1beta1.ResolutionRequest, limit time.Duration) time.Time {
	return r.CreationTimestamp.Add(timeoutOf(r, limit))
}

func timeoutOf(r *v1beta1.ResolutionRequest, limit time.Duration) time.Duration {
	own, err := time.ParseDuration(r.Annotations[resolution.AnnotationTimeout])
	if err != nil || own <= 0 {
		return limit
	}
	return min(own, limit)
}

func timedOut(r *v1beta1.ResolutionRequest, limit time.Duration, what string) *resolve.Error {
	return &resolve.Error{
		Reason: resolve.ReasonTimedOut,
		Msg:    fmt.Sprintf("not resolved within %s of its creation: %s", timeoutOf(r, limit), what),
	}
}

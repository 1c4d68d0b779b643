package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/version"

	"sluice.dev/internal/brief"
	"sluice.dev/schema/upstream"
)

// What becomes of one stored object under a new CRD? The API server's own code says so, in package schema/upstream. An object is
// judged as by an update that only adds a label, since that is the least that a client can change.

const (
	// maxWords and maxWordsLen bound what is kept of the server's words about one object.
	maxWords    = 10
	maxWordsLen = 1000
)

// judge runs objects through the new schema. It is safe for concurrent use.
type judge struct {
	v          *upstream.Validator
	apiVersion string
	gone       []string // apiVersions that the new CRD does not have
	// before is the live schema, if applies to objects without a refused value may be refused. It tells whether they are refused
	// already.
	before *upstream.Validator
	// status is set if the version has the status subresource and the API server does not ratchet writes of the status.
	status bool
}

// newJudge returns the judge for objects that are read in the version from, and judged in the version to.
func newJudge(live *apiextensionsv1.CustomResourceDefinition, from string, next *apiextensionsv1.CustomResourceDefinition, to string, kube *version.Version) (*judge, error) {
	props, options, err := upstream.ForCRD(next, to, kube)
	if err != nil {
		return nil, err
	}
	v, err := upstream.New(props, options)
	if err != nil {
		return nil, err
	}
	j := &judge{
		v: v, apiVersion: next.Spec.Group + "/" + to, gone: versionsOutOfReach(live, next),
		status: options.StatusSubresource && v.Ratchets() && !upstream.RatchetsStatusIn(kube),
	}
	if v.HasSetsOfCompounds() {
		if props, options, err = upstream.ForCRD(live, from, kube); err != nil {
			return nil, err
		}
		j.before, err = upstream.New(props, options)
	}
	return j, err
}

// versionsOutOfReach are the apiVersions of the live CRD that the new one does not have, or that nobody requests and only its new
// webhook converts.
func versionsOutOfReach(live, next *apiextensionsv1.CustomResourceDefinition) []string {
	var out []string
	for _, v := range live.Spec.Versions {
		kept := slices.ContainsFunc(next.Spec.Versions, func(n apiextensionsv1.CustomResourceDefinitionVersion) bool { return n.Name == v.Name })
		if !kept || !v.Served && !v.Storage && NamesWebhook(next) && !NamesWebhook(live) {
			out = append(out, live.Spec.Group+"/"+v.Name)
		}
	}
	return out
}

// NamesWebhook reports whether a webhook converts between the versions of a CRD.
func NamesWebhook(crd *apiextensionsv1.CustomResourceDefinition) bool {
	return crd.Spec.Conversion != nil && crd.Spec.Conversion.Strategy == apiextensionsv1.WebhookConverter
}

// fateOf judges an object that the server sent, in valid JSON. It overwrites raw.
func (j *judge) fateOf(ctx context.Context, raw []byte) (Fate, error) {
	var f Fate
	if version, manager := ownersIn(raw, j.gone); version != "" {
		f.OwnersGone = fmt.Sprintf("the fields of %s are noted in %s", manager, version)
	}
	obj, err := decodeObject(raw)
	if err != nil {
		return Fate{}, err
	}
	f.Name = objectName(obj)
	if f.Name == "" {
		return Fate{}, errors.New("an object that the server sent has no name")
	}
	stored := obj["apiVersion"]
	obj["apiVersion"] = j.apiVersion // conversion None changes nothing else
	judged, err := j.v.Judge(ctx, obj)
	if errors.Is(err, upstream.ErrTooDear) {
		f.Unjudged = brief.Clip(err.Error(), maxWordsLen)
		return f, nil
	}
	if err != nil {
		return Fate{}, fmt.Errorf("%s: %w", f.Name, err)
	}
	f.Repeats = brief.Clip(strings.Join(errorTexts(judged.Repeats), "; "), maxWordsLen)
	f.Dropped, f.Defaulted = clipAll(judged.Dropped), judged.Defaulted || judged.Changed
	if j.v.Ratchets() {
		f.Strict, f.Refused = errorTexts(judged.Strict), errorTexts(judged.Ratcheted)
	} else {
		f.Refused = errorTexts(judged.Strict)
	}
	if j.status && len(f.Strict) > 0 && len(f.Refused) == 0 {
		write, err := j.v.UpdateStatus(ctx, obj, obj, true)
		if err != nil {
			return Fate{}, fmt.Errorf("%s: %w", f.Name, err)
		}
		f.StatusRefused = brief.Clip(strings.Join(errorTexts(write.Errors), "; "), maxWordsLen)
	}
	if (j.before != nil || len(f.Strict) > 0) && len(f.Refused) == 0 {
		if f.Unappliable, err = j.v.Unappliable(obj); err != nil {
			return Fate{}, fmt.Errorf("%s: %w", f.Name, err)
		}
		f.Unappliable = brief.Clip(f.Unappliable, maxWordsLen)
	}
	if j.before != nil && f.Unappliable != "" {
		obj["apiVersion"] = stored
		already, err := j.before.Unappliable(obj)
		if err != nil {
			return Fate{}, fmt.Errorf("%s: %w", f.Name, err)
		}
		if already != "" {
			f.Unappliable = ""
		}
	}
	return f, nil
}

func errorTexts(errs field.ErrorList) []string {
	var out []string
	for _, e := range errs {
		out = append(out, e.Error())
	}
	return clipAll(out)
}

func clipAll(texts []string) []string {
	texts = texts[:min(len(texts), maxWords)]
	for i, s := range texts {
		texts[i] = brief.Clip(s, maxWordsLen)
	}
	return texts
}

// objectName returns namespace/name, or name where there is no namespace.
func objectName(obj map[string]any) string {
	meta, _ := obj["metadata"].(map[string]any)
	name, _ := meta["name"].(string)
	if ns, _ := meta["namespace"].(string); ns != "" && name != "" {
		return strings.Join([]string{ns, name}, "/")
	}
	return name
}

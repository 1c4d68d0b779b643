package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/version"

	"sluice.dev/internal/brief"
	"sluice.dev/schema/upstream"
)

const (
	// maxWords and maxWordsLen bound what is kept of the server's words about one object.
	maxWords    = 10
	maxWordsLen = 1000
)

// judge runs objects through the new schema. It is safe for concurrent use.
type judge struct {
	v          *upstream.Validator
	apiVersion string
}

func newJudge(next *apiextensionsv1.CustomResourceDefinition, to string, kube *version.Version) (*judge, error) {
	props, options, err := upstream.ForCRD(next, to, kube)
	if err != nil {
		return nil, err
	}
	v, err := upstream.New(props, options)
	if err != nil {
		return nil, err
	}
	return &judge{v: v, apiVersion: next.Spec.Group + "/" + to}, nil
}

// fateOf judges an object that the server sent, in valid JSON. It overwrites raw.
func (j *judge) fateOf(ctx context.Context, raw []byte) (Fate, error) {
	obj, err := decodeObject(raw)
	if err != nil {
		return Fate{}, err
	}
	f := Fate{Name: objectName(obj)}
	if f.Name == "" {
		return Fate{}, errors.New("an object that the server sent has no name")
	}
	obj["apiVersion"] = j.apiVersion // conversion None changes nothing else
	judged, err := j.v.Judge(ctx, obj)
	if errors.Is(err, upstream.ErrTooDear) {
		f.Unjudged = brief.Clip(err.Error(), maxWordsLen)
		return f, nil
	}
	if err != nil {
		return Fate{}, fmt.Errorf("%s: %w", f.Name, err)
	}
	f.Dropped, f.Defaulted = clipAll(judged.Dropped), judged.Defaulted || judged.Changed
	if j.v.Ratchets() {
		f.Strict, f.Refused = errorTexts(judged.Strict), errorTexts(judged.Ratcheted)
	} else {
		f.Refused = errorTexts(judged.Strict)
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

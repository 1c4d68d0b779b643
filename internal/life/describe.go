package life

// What does kubectl explain say about a gated field? One sentence at the end of its description, such as:
// Alpha since v1.2.0, off by default: feature Banner of component demo. The sentences are recognised and taken
// out again when a generated CRD is read.

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"sluice.dev/feature"
)

// said is the sentence that [describeFeatures] puts at the end of descriptions: one line of its own.
var said = regexp.MustCompile(`(?m)\n*^(?:The (?:value|values|items|version|strings) .*|Alpha|Beta|Stable|Deprecated|Planned|Removed)\b.*: feature [A-Z][A-Za-z0-9]* of component [-a-z0-9]+\.$`)

// describeFeatures writes into the descriptions of a CRD which parts a feature gates, its stage and its default, so that kubectl explain shows
// them. Of a removed feature, the field that is still there has to say that no object can use it. It writes nothing about features whose gate
// alone is gone, and features that are left out.
func describeFeatures(crd *apiextensionsv1.CustomResourceDefinition, model *feature.Model, left []*feature.Feature) {
	defaults := model.Defaults()
	for i := range crd.Spec.Versions {
		v := &crd.Spec.Versions[i]
		if v.Schema == nil {
			continue
		}
		lines := map[string][]string{}
		for _, f := range model.Features() {
			if f.GateGone() || slices.Contains(left, f) {
				continue
			}
			for j := range f.Targets {
				t := &f.Targets[j]
				if t.Group == crd.Spec.Group && t.Resource == crd.Spec.Names.Plural && (t.Version == "" || t.Version == v.Name) {
					at := t.Path.String()
					if line := stageSentence(f, t, defaults); !slices.Contains(lines[at], line) {
						lines[at] = append(lines[at], line)
					}
				}
			}
		}
		walkSchema(v.Schema.OpenAPIV3Schema, nil, func(path feature.Path, s *apiextensionsv1.JSONSchemaProps) bool {
			at := path.String()
			if more := lines[at]; more != nil {
				delete(lines, at) // those below allOf have the same path
				s.Description = strings.TrimLeft(s.Description+"\n"+strings.Join(more, "\n"), "\n")
			}
			return true
		})
	}
}

// undescribe removes the sentences of [describeFeatures].
func undescribe(crd *apiextensionsv1.CustomResourceDefinition) {
	for i := range crd.Spec.Versions {
		if v := &crd.Spec.Versions[i]; v.Schema != nil {
			walkSchema(v.Schema.OpenAPIV3Schema, nil, func(_ feature.Path, s *apiextensionsv1.JSONSchemaProps) bool {
				s.Description = said.ReplaceAllString(s.Description, "")
				return true
			})
		}
	}
	delete(crd.Annotations, ChannelAnnotation)
}

// stageSentence describes the stage of the feature that gates a part.
func stageSentence(f *feature.Feature, t *feature.Target, defaults *feature.States) string {
	what := ""
	switch {
	case t.WholeVersion:
		what = "The version is "
	case len(t.Values) == 1:
		what = "The value " + t.Values[0] + " is "
	case t.Values != nil:
		what = "The values " + strings.Join(t.Values, ", ") + " are "
	case t.Pattern != nil:
		what = "The strings that match " + strconv.Quote(t.Pattern.String()) + " are "
	case t.Match != nil:
		what = "The items that match are "
	case t.Beyond != nil:
		what = "The values beyond " + feature.BoundsText(&t.Beyond.Bounds) + " are "
	}
	stage := stageText(f, defaults)
	if what == "" {
		return sentenceCase(stage) + fmt.Sprintf(": feature %s of component %s.", f.Spec.Gate, f.Spec.Component)
	}
	return what + stage + fmt.Sprintf(": feature %s of component %s.", f.Spec.Gate, f.Spec.Component)
}

// stageText says the stage, since when, and the default.
func stageText(f *feature.Feature, defaults *feature.States) string {
	stage, since := stageOf(f)
	value, why := defaultOf(f, defaults)
	if f.Entry < 0 {
		return fmt.Sprintf("planned as %s for %s", lowerStage(f.Spec.Stages[0].Stage), since)
	}
	if !f.Locked {
		value += " by default"
	}
	if why != "" {
		value += " (" + why + ")"
	}
	return fmt.Sprintf("%s since %s, %s", stage, since, value)
}

// stageOf returns the stage in small letters, and since when. A stage that has not begun is planned.
func stageOf(f *feature.Feature) (stage, since string) {
	if f.Entry < 0 {
		return "planned", feature.Since(&f.Spec.Stages[0])
	}
	first := f.Entry
	for first > 0 && f.Spec.Stages[first-1].Stage == f.Stage {
		first--
	}
	return lowerStage(f.Stage), feature.Since(&f.Spec.Stages[first])
}

// defaultOf returns what is in effect while nothing is set, and why if that is not the default of the stage.
func defaultOf(f *feature.Feature, defaults *feature.States) (value, why string) {
	s, _ := defaults.State(f.Spec.Gate)
	value = onOff(s.Open, f.Entry >= 0 && f.Locked)
	switch {
	case f.Entry < 0 || s.Open == f.Default:
		return value, ""
	case s.Why == feature.WhyLevel || s.Why == feature.WhyImplied:
		return value, fmt.Sprintf("level %s", defaults.Level())
	}
	return value, s.Reason
}

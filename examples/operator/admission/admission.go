// Package admission is what a webhook of the operator's own would do about gated fields, where no policy does it: once by the declared
// parts, once by hand. The operator itself does without: its policies do all of it.
package admission

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/component-base/featuregate"

	pagesv1 "sluice.dev/examples/operator/api/v1"
	"sluice.dev/examples/operator/features"
	"sluice.dev/feature/gate"
	"sluice.dev/feature/typed"
)

// Declared judges a page by the declared parts. Old is nil on creation.
func Declared(gates *gate.Gates, page, old *pagesv1.Page) (warnings []string, errs field.ErrorList, err error) {
	pages := typed.Resource[pagesv1.Page]{Gates: gates, GVR: pagesv1.GroupVersion.WithResource("pages")}
	return pages.Judge(page, old) // drops, refuses, warns, by the declared parts
}

// formats are the values of the field format. An empty one is valid, because the field may be left out.
var formats = typed.Enum[pagesv1.Format]{
	Values: []pagesv1.Format{"", pagesv1.Plain, pagesv1.HTML},
	Gated:  map[pagesv1.Format]featuregate.Feature{pagesv1.Markdown: features.Markdown},
}

// ByHand drops and refuses by hand, on any gate. Old is nil on creation.
func ByHand(gates typed.Enabler, page, old *pagesv1.Page) *field.Error {
	typed.DropDisabled(gates, page, old,
		typed.Field(features.Banner, func(p *pagesv1.Page) **pagesv1.Banner { return &p.Spec.Banner }))
	var before []pagesv1.Format
	if old != nil {
		before = append(before, old.Spec.Format)
	}
	return formats.Options(gates, before...).Validate(field.NewPath("spec", "format"), page.Spec.Format)
}

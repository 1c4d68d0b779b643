package compat

// Which requests need the conversion webhook, and which did before? For example, if objects are stored as v1 and served as v1 and v2, a
// request for v2 needs it, and one for v1 does not.

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"sluice.dev/report"
)

// webhookConversions are the steps that requests in the served versions of a CRD need: none under the strategy None, and none if all
// objects are stored and served in one version (crdConversionRESTOptionsGetter in k8s.io/apiextensions-apiserver/pkg/apiserver). The given
// versions may hold objects, besides the storage version.
// An object in the storage version that is requested in that version needs no conversion. All other pairs of a
// requested version and a version that may hold objects do, and so does each write in a version that does not store.
func webhookConversions(d *crd, ps []*part, stored []string) []conversion {
	home := storageVersionOf(ps)
	if home == nil || !namesWebhook(d) {
		return nil
	}
	var out []conversion
	if !slices.Contains(stored, home.Name) {
		stored = append(slices.Clip(stored), home.Name)
	}
	for _, p := range servedVersionsOf(ps) {
		for _, name := range stored {
			if name != p.Name && findVersion(ps, name) != nil {
				out = append(out, conversion{p.Name, name, p.Name})
			}
		}
		if p != home {
			out = append(out, conversion{p.Name, p.Name, home.Name})
		}
	}
	return out
}

// webhookNamedAnew reports whether the conversion strategy changes from None to Webhook.
func (c *comparison) webhookNamedAnew() bool {
	return c.hasBothCRDs() && !namesWebhook(c.old) && namesWebhook(c.new)
}

// namesWebhook reports whether the conversion strategy of d is Webhook.
func namesWebhook(d *crd) bool {
	return d != nil && d.Spec.Conversion != nil && d.Spec.Conversion.Strategy == apiextensionsv1.WebhookConverter
}

// conversionsAnew are the steps that the webhook of the new CRD has to make, and that no webhook at the same address made before. Nobody
// can say what it makes of the objects, or whether it answers.
// A step counts as known if the webhook at the same address made it under the old CRD. Which version was requested
// does not matter: the webhook sees the two versions only.
func (c *comparison) conversionsAnew() []conversion {
	if !c.hasBothCRDs() || webhookAddress(c.old) != webhookAddress(c.new) {
		return c.newConversions
	}
	return slices.DeleteFunc(slices.Clone(c.newConversions), func(now conversion) bool {
		return slices.ContainsFunc(c.oldConversions, func(was conversion) bool { return was.from == now.from && was.to == now.to })
	})
}

// needWebhookAnew are the versions that clients of the old CRD used without a webhook, and for which the steps are needed now.
func (c *comparison) needWebhookAnew(steps []conversion) []string {
	var out []string
	for _, p := range c.servedPairs() {
		requested := func(step conversion) bool { return step.request == p.to.Name }
		if slices.ContainsFunc(steps, requested) && !slices.ContainsFunc(c.oldConversions, requested) {
			out = append(out, p.to.Name)
		}
	}
	return out
}

// webhookAddress says where the conversion webhook of d is asked, and in which version of the review; empty without one. The CA bundle does
// not count: others write and renew it.
// The port and the path have their defaults, so that a Service that is written out is no change.
func webhookAddress(d *crd) string {
	if !namesWebhook(d) || d.Spec.Conversion.Webhook == nil {
		return ""
	}
	w := d.Spec.Conversion.Webhook
	var at string
	if cc := w.ClientConfig; cc != nil && cc.URL != nil {
		at = *cc.URL
	} else if cc != nil && cc.Service != nil {
		s := cc.Service
		port, path := int32(443), ""
		if s.Port != nil {
			port = *s.Port
		}
		if s.Path != nil {
			path = strings.TrimPrefix(*s.Path, "/")
		}
		at = fmt.Sprintf("service %s/%s:%d/%s", s.Namespace, s.Name, port, path)
	}
	// The API server takes the first version that it knows.
	i := slices.IndexFunc(w.ConversionReviewVersions, func(v string) bool { return v == "v1" || v == "v1beta1" })
	if i < 0 {
		return at
	}
	return at + " with ConversionReview " + w.ConversionReviewVersions[i]
}

// brokenBundle is the finding about a caBundle without a certificate, which API servers before 1.31 take: no conversion passes then.
// Since 1.31 the validation refuses such a bundle, and then the finding of that refusal says all.
func (c *comparison) brokenBundle() (report.Finding, bool) {
	bundle := bundleOf(c.new)
	if !c.hasBothCRDs() || len(bundle) == 0 || bytes.Equal(bundle, bundleOf(c.old)) || len(c.newConversions) == 0 ||
		x509.NewCertPool().AppendCertsFromPEM(bundle) || c.refusalWords("spec.conversion.webhookClientConfig.caBundle") != "" {
		return report.Finding{}, false
	}
	return report.Finding{
		Message:    "the caBundle of the webhook holds no certificate, so no request passes that it has to convert: " + stepNames(c.newConversions),
		SchemaPath: []string{"spec", "conversion", "webhook", "clientConfig", "caBundle"},
	}, true
}

// bundleOf is the CA bundle of the conversion webhook.
func bundleOf(d *crd) []byte {
	if !namesWebhook(d) || d.Spec.Conversion.Webhook == nil || d.Spec.Conversion.Webhook.ClientConfig == nil {
		return nil
	}
	return d.Spec.Conversion.Webhook.ClientConfig.CABundle
}

// stepNames names each step once, for people.
func stepNames(steps []conversion) string {
	var out []string
	for _, s := range steps {
		if name := s.from + " to " + s.to; !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return strings.Join(out, ", ")
}

// storageMoves reports whether another version stores objects than before.
// Versions that are alike in both CRDs count as one, because an object stored in the one is the same object in the
// other.
func (c *comparison) storageMoves() bool {
	o, n := storageVersionOf(c.oldParts), storageVersionOf(c.newParts)
	return o != nil && n != nil && !c.areAlike(o, n)
}

package compat

import (
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"sluice.dev/compat/internal/certify"
	"sluice.dev/report"
	"sluice.dev/schema/contain"
	"sluice.dev/schema/upstream"
)

// verify has the proof of a pair checked. What is reported needs no proof; a comparison that was cut short has none.
func (c *comparison) verify(p pair, r contain.Result) {
	if !c.opts.VerifyProofs {
		return
	}
	if c.proof == nil {
		c.proof = &report.Proof{Trusted: map[string]int{}}
	}
	cert := certify.Certificate{Steps: make([]certify.Step, len(r.Proof))}
	for i, s := range r.Proof {
		keyword := s.Keyword
		if s.Updates {
			keyword = certify.Updates
		}
		cert.Steps[i] = certify.Step{Path: s.Path.String(), Keyword: keyword, Detail: s.Detail, Lemma: certify.Lemma(s.Lemma)}
	}
	for _, g := range r.Gaps {
		keyword := g.Keyword
		switch {
		case keyword == certify.Subtree:
			return
		case g.Harm == contain.RefusedTransition:
			keyword = certify.Updates
		}
		if g.OddAlone { // a note: that nothing else is in trouble was argued, and is not checked
			c.proof.Trusted[string(certify.OnlyOdd)]++
		}
		cert.Reported = append(cert.Reported, certify.Step{Path: g.Path.String(), Keyword: keyword, Detail: g.Detail})
	}
	out := certify.Verify(p.from.props, p.to.props, cert, c.resource(p))
	c.proof.Verified += out.Verified
	for lemma, n := range out.Trusted {
		c.proof.Trusted[string(lemma)] += n
	}
	for _, why := range out.Refused {
		if p.from.Name != p.to.Name {
			why = p.from.Name + " as " + p.to.Name + ": " + why
		}
		c.proof.Refused = append(c.proof.Refused, why)
	}
}

// verifyEqual has the proof checked that nothing but texts differs.
func (c *comparison) verifyEqual() {
	for _, p := range c.pairs {
		if p.from.index == p.to.index { // an invalid CRD may have two versions of one name
			c.verify(p, contain.Result{Proof: contain.ProofOfEqual()})
		}
	}
}

func (c *comparison) resource(p pair) certify.Resource {
	o := c.containOptions(p.from)
	strip := validation.StripUnsupportedFormatsPostProcessorForVersion(upstream.LibraryVersion(c.opts.KubeVersion))
	known := map[string]bool{}
	return certify.Resource{
		APIVersion: o.Group + "/" + o.Version, Kind: o.Kind, NumberFormats: upstream.ChecksNumbers(c.opts.KubeVersion),
		OldUnchecked: p.from.unchecked, NewUnchecked: p.to.unchecked,
		Format: func(name string) bool {
			is, ok := known[name]
			if !ok {
				s := spec.Schema{}
				s.Format = name
				is = strip(&s) == nil && s.Format != ""
				known[name] = is
			}
			return is
		},
	}
}

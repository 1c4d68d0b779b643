// Package verify decides whether a fetched resource has the signature that the operator demands.
//
// A [Policy] names sources by patterns, and the keys that must sign content from there. The framework of resolvers calls [Verify]
// with every result of every resolver, also with one from the cache.
//
// There are three forms of signature. With [FormResource] the resource itself has its signature, in the annotation
// tekton.dev/signature, over the canonical JSON that [Payload] returns. With [FormCosign] the image that holds the resource is
// signed in its registry. With [FormCommit] the commit, or the annotated tag that names it, is signed in its repository. For the
// last two, the resolver verifies the signature and lists the signers in the resource's Signers.
//
// The package promises that a pattern must match the whole source. A policy that cannot be read is an error, never a missing
// policy. Content that another parser could read differently (several documents, a key that occurs twice) never counts as signed.
// The package fetches nothing. It verifies certificates and transparency logs with the trusted
// root that the operator gives, without the network. It does not decide who can write policies.
package verify

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"sluice.dev/resolve"
)

// Mode decides about a missing or wrong signature.
type Mode string

// Modes. The zero value counts as [Enforce], as in Tekton's VerificationPolicy.
const (
	// Enforce: the resource is refused.
	Enforce Mode = "enforce"
	// Warn: the resource is used, with a warning.
	Warn Mode = "warn"
)

// NoMatch decides about a resource that no policy matches, as Tekton's setting trusted-resources-verification-no-match-policy does.
type NoMatch string

// Values of NoMatch. The zero value counts as [NoMatchIgnore].
const (
	NoMatchIgnore NoMatch = "ignore"
	NoMatchWarn   NoMatch = "warn"
	NoMatchFail   NoMatch = "fail"
)

// Form is the form of signature that a policy demands.
type Form string

// Forms. The zero value counts as [FormResource].
const (
	FormResource Form = "resource"
	FormCosign   Form = "cosign"
	FormCommit   Form = "commit"
)

// Policy names sources and the keys that must sign their content.
type Policy struct {
	// Name is for messages; it must be unique.
	Name string `json:"name"`
	Mode Mode   `json:"mode,omitempty"`
	Form Form   `json:"form,omitempty"`
	// Patterns are regular expressions in Go's syntax, at least one. One of them must match the whole URI of the source, with or
	// without the prefix git+; a pattern needs no anchors. The URI without user information, default port and upper case in its
	// host is matched as well. So are the forms of a git repository by https, http, git, ssh and USER@HOST:PATH, with and without
	// .git, in any case.
	Patterns []string `json:"patterns"`
	// One of Keys and Identities must have signed; at least one is required. Identities are for [FormCosign] and [FormCommit].
	Keys       []Key      `json:"keys,omitempty"`
	Identities []Identity `json:"identities,omitempty"`
}

// Key is a public key, given by exactly one of PEM and KMS.
type Key struct {
	// Name is for messages; empty if the key has none.
	Name string `json:"name,omitempty"`
	// PEM is a public key in PKIX form: ECDSA, Ed25519, or RSA of 2,048 bits at least. For [FormCommit] it is the input of
	// [ParseCommitKeys]; a signature by any of these keys is enough.
	PEM string `json:"pem,omitempty"`
	// KMS is the URI of a key that is kept elsewhere, for example gcpkms://…, as Tekton's policies can have it. Such a key is an error.
	KMS string `json:"kms,omitempty"`
	// Hash is sha256, sha384 or sha512; empty stands for sha256. Ed25519 does not use it.
	Hash string `json:"hash,omitempty"`
}

// Options are the options of [New]. The zero value is ready for use.
type Options struct {
	// NoMatch is for resources that no policy matches.
	NoMatch NoMatch
	// TrustedRoot is Sigstore's trusted_root.json as text, for identities without one of their own. If it is empty, such an
	// identity is an error.
	TrustedRoot string
}

// Policies is a list of policies that is ready for use. It does not change and is safe for concurrent use. nil accepts everything.
type Policies struct {
	noMatch  NoMatch
	policies []compiled
	digest   string
}

type compiled struct {
	name     string
	mode     Mode
	form     Form
	patterns []*regexp.Regexp
	// folded are the patterns without case.
	folded []*regexp.Regexp
	Signatories
}

// Bounds of policies, so that a mistake does not stop the process.
const (
	maxPolicies = 1000
	maxPattern  = 4096
)

// New checks policies and makes them ready for use. If there are errors, it returns all of them, joined, and no policies.
func New(policies []Policy, o Options) (*Policies, error) {
	p := &Policies{noMatch: cmp.Or(o.NoMatch, NoMatchIgnore)}
	var errs []error
	switch p.noMatch {
	case NoMatchIgnore, NoMatchWarn, NoMatchFail:
	default:
		errs = append(errs, fmt.Errorf("no-match policy %q: use ignore, warn or fail", o.NoMatch))
	}
	if len(policies) > maxPolicies {
		return nil, fmt.Errorf("%d policies; at most %d are allowed", len(policies), maxPolicies)
	}
	names := map[string]bool{}
	for i, in := range policies {
		c, err := compilePolicy(in, o)
		if names[in.Name] {
			err = errors.Join(err, errors.New("there are two of that name"))
		}
		names[in.Name] = true
		if err != nil {
			errs = append(errs, fmt.Errorf("policy %d (%q): %w", i+1, in.Name, err))
			continue
		}
		p.policies = append(p.policies, c)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	text, err := json.Marshal(struct {
		NoMatch     NoMatch
		Policies    []Policy
		TrustedRoot string
	}{p.noMatch, policies, o.TrustedRoot})
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	p.digest = hex.EncodeToString(sum[:])
	return p, nil
}

// compilePolicy checks a policy, with all that is wrong in one error, and fills in the defaults.
func compilePolicy(in Policy, o Options) (compiled, error) {
	out := compiled{name: in.Name, mode: cmp.Or(in.Mode, Enforce), form: cmp.Or(in.Form, FormResource)}
	var errs []error
	if in.Name == "" {
		errs = append(errs, errors.New("it has no name"))
	}
	if out.mode != Enforce && out.mode != Warn {
		errs = append(errs, fmt.Errorf("mode %q: use enforce or warn", in.Mode))
	}
	if !slices.Contains([]Form{FormResource, FormCosign, FormCommit}, out.form) {
		errs = append(errs, fmt.Errorf("form %q: use resource, cosign or commit", in.Form))
	}
	if len(in.Patterns) == 0 {
		errs = append(errs, errors.New("it has no patterns; .* stands for every source"))
	}
	for _, s := range in.Patterns {
		re, err := compileAnchored(s)
		var git *regexp.Regexp
		if err == nil {
			git, err = compileGit(s)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("pattern %q: %w", s, err))
			continue
		}
		out.patterns = append(out.patterns, re)
		out.folded = append(out.folded, regexp.MustCompile("(?i)"+git.String()))
	}
	if len(in.Keys)+len(in.Identities) == 0 {
		errs = append(errs, errors.New("it has no keys and no identities"))
	}
	for i, k := range in.Keys {
		if out.form == FormCommit {
			keys, err := newCommitKeys(k)
			if err != nil {
				errs = append(errs, fmt.Errorf("key %d (%q): %w", i+1, k.Name, err))
				continue
			}
			out.commitKeys = append(out.commitKeys, keys)
			continue
		}
		pub, err := newPublicKey(k)
		if err != nil {
			errs = append(errs, fmt.Errorf("key %d (%q): %w", i+1, k.Name, err))
			continue
		}
		out.Keys = append(out.Keys, pub)
	}
	for i, id := range in.Identities {
		k, err := newKeyless(id, o.TrustedRoot)
		if out.form == FormResource {
			err = errors.Join(err, errors.New("a resource is signed by keys only; identities are for the forms cosign and commit"))
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("identity %d (%q): %w", i+1, id.Name, err))
			continue
		}
		// A signer of a commit has not signed an image.
		k.id = string(out.form) + ":" + k.id
		out.identities = append(out.identities, k)
	}
	return out, errors.Join(errs...)
}

var (
	// literalGit is the beginning of a source of git as messages have it; in a pattern the plus would count as a repetition.
	literalGit = regexp.MustCompile(`^git\+([a-z]+://)`)
	// literalHost is the beginning of a pattern that has a host and no scheme: an image, or a repository as policies of git have it.
	literalHost = regexp.MustCompile(`^[a-zA-Z0-9\\.-]+(:[0-9]+)?/`)
)

// compileGit compiles a pattern for sources of git. One that begins as such a source does, or with a host, has the meaning that it seems to have.
func compileGit(pattern string) (*regexp.Regexp, error) {
	switch {
	case strings.ContainsAny(pattern, " \t\r\n"):
		return nil, errors.New("it has a space, which no source has; an address has %20 in its place")
	case literalGit.MatchString(pattern):
		pattern = literalGit.ReplaceAllString(pattern, `git\+$1`)
	case literalHost.MatchString(pattern) && !strings.Contains(pattern, "://"):
		pattern = `(?:git\+[a-z]+://)?(?:` + pattern + `)`
	}
	return compileAnchored(pattern)
}

// compileAnchored compiles a pattern so that it matches only whole strings. It compiles the pattern alone first: otherwise unbalanced
// parentheses could close the group inside the anchors.
func compileAnchored(pattern string) (*regexp.Regexp, error) {
	if pattern == "" {
		return nil, errors.New("it is empty; .* stands for every source")
	}
	if len(pattern) > maxPattern {
		return nil, fmt.Errorf("it is longer than %d bytes", maxPattern)
	}
	if _, err := regexp.Compile(pattern); err != nil {
		return nil, err
	}
	return regexp.Compile(`\A(?:` + pattern + `)\z`)
}

// Digest identifies the policies: it is the same for the same list and options, and empty for nil. A cache of results must use it
// as part of the key, because Signers depends on the policies.
func (p *Policies) Digest() string {
	if p == nil {
		return ""
	}
	return p.digest
}

// policiesFor returns the policies one of whose patterns matches a form of the URI; see uriForms. A policy that matches one spelling
// holds for all of them.
func (p *Policies) policiesFor(uri string) []compiled {
	if p == nil {
		return nil
	}
	forms := uriForms(uri)
	git := strings.HasPrefix(uri, gitPrefix)
	var out []compiled
	for _, c := range p.policies {
		patterns := c.patterns
		if git {
			// Hosts of repositories ignore case.
			patterns = c.folded
		}
		if slices.ContainsFunc(patterns, func(re *regexp.Regexp) bool { return slices.ContainsFunc(forms, re.MatchString) }) {
			out = append(out, c)
		}
	}
	return out
}

// Signatories are the keys and identities that can sign content from one source, by the policies of one form.
type Signatories struct {
	// Keys are all keys of these policies, without duplicates; none with [FormCommit].
	Keys       []PublicKey
	commitKeys []commitKeys
	identities []*keyless
	// Enforced: one of the policies refuses unsigned content.
	Enforced bool
}

// IDs returns the IDs of all signatories, in the order of the policies; nil if there is no such policy.
func (s Signatories) IDs() []string {
	ids, _ := s.idsAndNames()
	return ids
}

// Names lists all signatories, for messages.
func (s Signatories) Names() string {
	_, names := s.idsAndNames()
	return strings.Join(names, ", ")
}

// idsAndNames lists all signatories in one order: keys, keys for commits, identities.
func (s Signatories) idsAndNames() (ids, names []string) {
	for _, k := range s.Keys {
		ids, names = append(ids, k.ID), append(names, k.Name)
	}
	for _, k := range s.commitKeys {
		ids, names = append(ids, k.id), append(names, k.name)
	}
	for _, k := range s.identities {
		ids, names = append(ids, k.id), append(names, k.name)
	}
	return ids, names
}

// Cosign returns the signatories for the image at that URI, by the policies of [FormCosign]. It is for the resolver that fetches
// images, which puts the IDs of the signers into Resource.Signers. [Verify] reads them there.
func (p *Policies) Cosign(uri string) Signatories { return p.signatoriesFor(uri, FormCosign) }

// Commit returns the signatories for commits of the repository at that URI, by the policies of [FormCommit]. It is for the resolver
// that fetches commits.
func (p *Policies) Commit(uri string) Signatories { return p.signatoriesFor(uri, FormCommit) }

// signatoriesFor joins the policies of one form that match a URI. A key that several of them name is there once.
func (p *Policies) signatoriesFor(uri string, form Form) Signatories {
	var out Signatories
	for _, c := range p.policiesFor(uri) {
		if c.form != form {
			continue
		}
		out.Enforced = out.Enforced || c.mode == Enforce
		out.Keys = appendNew(out.Keys, c.Keys, func(k PublicKey) string { return k.ID })
		out.commitKeys = appendNew(out.commitKeys, c.commitKeys, func(k commitKeys) string { return k.id })
		out.identities = appendNew(out.identities, c.identities, func(k *keyless) string { return k.id })
	}
	return out
}

// appendNew appends the signatories whose ID the list does not have.
func appendNew[T any](list, more []T, id func(T) string) []T {
	for _, one := range more {
		if !slices.ContainsFunc(list, func(other T) bool { return id(other) == id(one) }) {
			list = append(list, one)
		}
	}
	return list
}

// Verify checks a resource by all policies that match its source. Each enforcing policy needs a signature by at least one of its
// keys. Otherwise the error is a [*resolve.Error], with the reason VerificationFailed unless ctx was done. Each policy that only
// warns gives one warning, in the order of the policies. If the resource has no source URI, patterns are matched with the empty
// string.
func Verify(ctx context.Context, p *Policies, res *resolve.Resource) (warnings []string, err error) {
	if p == nil {
		return nil, nil
	}
	matching := p.policiesFor(res.Source.URI)
	if len(matching) == 0 {
		msg := fmt.Sprintf("no verification policy speaks of the source %q", res.Source.URI)
		switch p.noMatch {
		case NoMatchFail:
			return nil, &resolve.Error{Reason: resolve.ReasonVerification, Msg: msg}
		case NoMatchWarn:
			return []string{msg}, nil
		case NoMatchIgnore:
		}
		return nil, nil
	}
	// The content is read once, and only if a policy needs it.
	var signed *signedContent
	var failed []string
	for _, c := range matching {
		var why error
		switch c.form {
		case FormCosign, FormCommit:
			why = c.checkSigners(res.Signers)
		case FormResource:
			if signed == nil {
				signed = readSigned(res.Data)
			}
			why = c.checkContent(signed)
		}
		if ctxErr := ctx.Err(); ctxErr != nil {
			return nil, resolve.Errorf(resolve.ReasonCanceled, "verification was interrupted: %w", ctxErr)
		}
		if why == nil {
			continue
		}
		msg := fmt.Sprintf("policy %q: %s", c.name, why.Error())
		if c.mode == Warn {
			warnings = append(warnings, msg)
			continue
		}
		failed = append(failed, msg)
	}
	if len(failed) > 0 {
		return nil, &resolve.Error{
			Reason: resolve.ReasonVerification,
			Msg:    fmt.Sprintf("the resource from %q is not signed as it has to be: %s", res.Source.URI, strings.Join(failed, "; ")),
		}
	}
	return warnings, nil
}

// checkSigners judges by what the resolver has verified. It cannot verify anew: the image or the commit is not at hand.
func (c *compiled) checkSigners(signers []string) error {
	for _, id := range c.IDs() {
		if slices.Contains(signers, id) {
			return nil
		}
	}
	if c.form == FormCommit {
		return fmt.Errorf("its commit is not known to be signed by %s; the resolver git finds that out where it is asked by url", c.Names())
	}
	return fmt.Errorf("no cosign signature by %s", c.Names())
}

// checkContent judges the signature inside the resource, which is over its canonical form; see [Payload].
func (c *compiled) checkContent(s *signedContent) error {
	if s.err != nil {
		return s.err
	}
	for _, k := range c.Keys {
		if k.hasSigned(s.message, s.signature) {
			return nil
		}
	}
	return fmt.Errorf("the signature in %s is by none of %s, or the resource has changed since", AnnotationSignature, c.Names())
}

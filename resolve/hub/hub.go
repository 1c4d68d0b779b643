// Package hub fetches tasks and pipelines from Artifact Hub and from Tekton Hub. It tries the operator's addresses in order. If a
// requester gives an address, it tries only that one, and refuses private addresses. Package netguard limits sizes and redirects.
// The package does not judge what a hub publishes.
package hub

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"regexp"
	"slices"
	"strings"

	version "github.com/hashicorp/go-version"
	"go.yaml.in/yaml/v3"

	"sluice.dev/resolve"
	"sluice.dev/resolve/netguard"
)

// Names of parameters, and the types of hubs.
const (
	ParamName    = "name"
	ParamVersion = "version"
	ParamKind    = "kind"
	ParamCatalog = "catalog"
	ParamType    = "type"
	ParamURL     = "url"

	TypeArtifact = "artifact"
	TypeTekton   = "tekton"
)

// Keys of the ConfigMap, as Tekton has them.
const (
	KeyTektonCatalog   = "default-tekton-hub-catalog"
	KeyTaskCatalog     = "default-artifact-hub-task-catalog"
	KeyPipelineCatalog = "default-artifact-hub-pipeline-catalog"
	KeyKind            = "default-kind"
	KeyType            = "default-type"
	KeyArtifactURLs    = "artifact-hub-urls"
	KeyTektonURLs      = "tekton-hub-urls"
	KeyPlain           = "allow-plain-http"
)

// maxURLs bounds the number of hubs to ask.
const maxURLs = 10

// Names of environment variables that Tekton's resolver reads; see [Options].
const (
	EnvArtifactURL = "ARTIFACT_HUB_API"
	EnvTektonURL   = "TEKTON_HUB_API"
)

// Options are settings of the process, in addition to the ConfigMap.
type Options struct {
	// Network has the addresses, proxies and authorities that the process allows.
	Network netguard.Options
	// ArtifactURL and TektonURL are the addresses of the hubs if the ConfigMap names none; empty stands for the public ones. Both
	// count as the operator's.
	ArtifactURL, TektonURL string
}

// Resolver is the resolver hub.
type Resolver struct {
	guards  *netguard.Pool
	options Options
}

// New returns the resolver. The error names an invalid address.
func New(o Options) (*Resolver, error) {
	for env, u := range map[string]string{EnvArtifactURL: o.ArtifactURL, EnvTektonURL: o.TektonURL} {
		if err := checkBase(u); u != "" && err != nil {
			return nil, errors.New(env + ": " + err.Error())
		}
	}
	return &Resolver{guards: netguard.NewPool(o.Network), options: o}, nil
}

// Close closes idle connections.
func (h *Resolver) Close() { h.guards.Close() }

// segment matches a text that may be a part of the path of a hub's address, up to maxSegment bytes.
var segment = regexp.MustCompile(`^[A-Za-z0-9_]([-A-Za-z0-9_.]*[A-Za-z0-9_])?$`)

const maxSegment = 253

// checkSegment accepts what is one part of a path whatever the hub makes of it: no dots that lead elsewhere, no slash, no escape.
func checkSegment(v string) error {
	if len(v) > maxSegment || !segment.MatchString(v) {
		return errors.New("it may have letters, digits, hyphens, dots and underscores only, 253 at most, and neither begin nor end with one of the first two")
	}
	return nil
}

// Spec implements [resolve.Resolver].
func (h *Resolver) Spec() resolve.Spec {
	return resolve.Spec{
		Name: "hub", Doc: "Fetches a task or a pipeline from Artifact Hub or Tekton Hub.", ConfigMap: "hubresolver-config",
		Config: append([]resolve.Key{
			{Name: KeyTektonCatalog, Default: "Tekton", Check: checkSegment, Doc: "The catalog for type tekton."},
			{Name: KeyTaskCatalog, Default: "tekton-catalog-tasks", Check: checkSegment, Doc: "The catalog for tasks of type artifact."},
			{Name: KeyPipelineCatalog, Default: "tekton-catalog-pipelines", Check: checkSegment, Doc: "The catalog for pipelines of type artifact."},
			{Name: KeyKind, Default: "task", Doc: "The kind where a request names none."},
			{Name: KeyType, Default: TypeArtifact, Check: resolve.OneOf(TypeArtifact, TypeTekton), Doc: "The type of hub where a request names none."},
			{Name: KeyArtifactURLs, Default: "[" + cmp.Or(h.options.ArtifactURL, "https://artifacthub.io") + "]", Check: resolve.Parses(parseURLs), Doc: "Addresses of Artifact Hubs, a YAML list, tried in order; the environment variable ARTIFACT_HUB_API sets another default."},
			{Name: KeyTektonURLs, Default: "[" + cmp.Or(h.options.TektonURL, "https://api.hub.tekton.dev") + "]", Check: resolve.Parses(parseURLs), Doc: "Addresses of Tekton Hubs, a YAML list, tried in order; the environment variable TEKTON_HUB_API sets another default."},
			{Name: KeyPlain, Default: "false", Check: resolve.CheckBool, Doc: "Whether addresses may be plain http."},
		}, netguard.Keys(true, true)...),
		// An answer may have four times the size of the content, and is both read and decoded.
		Memory: func(limit int64) int64 { return 12*limit + 2<<20 },
		Params: []resolve.Param{
			{Name: ParamName, Required: true, Check: checkSegment, Doc: "The name of the task or pipeline."},
			{Name: ParamVersion, Required: true, MaxLength: 256, Check: checkVersion, Doc: "A version, or a constraint such as >= 0.7.0 or ~> 0.7: then the highest version that satisfies it."},
			{Name: ParamKind, DefaultKey: KeyKind, Allowed: []string{"task", "pipeline", "stepaction"}, Doc: "The kind of resource."},
			{Name: ParamCatalog, Check: checkSegment, Doc: "The catalog; the configuration has defaults by type and kind."},
			{Name: ParamType, DefaultKey: KeyType, Allowed: []string{TypeArtifact, TypeTekton}, Doc: "The type of hub."},
			{Name: ParamURL, MaxLength: 2048, Check: checkBase, Doc: "The address of the hub, in place of the configured ones."},
		},
		Validate: func(r *resolve.Request) []error {
			if catalogOf(r) == "" {
				return []error{errors.New("parameter " + ParamCatalog + " is missing; there is no default for kind " + r.Get(ParamKind))}
			}
			return nil
		},
		Scope: func(*resolve.Request) string { return resolve.PublicScope },
		Host: func(r *resolve.Request) string {
			for _, b := range baseURLs(r) {
				if u, err := url.Parse(b); err == nil {
					return strings.ToLower(u.Host)
				}
			}
			return ""
		},
	}
}

// checkBase accepts http as well, because only the configuration says whether it is allowed.
func checkBase(v string) error {
	u, err := url.Parse(v)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Scheme != "https" && u.Scheme != "http" {
		return errors.New("it is no https URL with a host and without user name, query and fragment")
	}
	return nil
}

// parseURLs reads the addresses of hubs.
func parseURLs(v string) ([]string, error) {
	var urls []string
	if err := yaml.Unmarshal([]byte(v), &urls); err != nil || len(urls) == 0 || len(urls) > maxURLs {
		return nil, errors.New("want a YAML list of 1 to 10 addresses")
	}
	for _, u := range urls {
		if err := checkBase(u); err != nil {
			return nil, errors.New("one of the addresses: " + err.Error())
		}
	}
	return urls, nil
}

// isConstraint reports whether a text is a constraint and not a version, in the terms of package go-version: a comparison, or a list
// of them. A version alone, with or without v in front, is a constraint that only this version satisfies.
func isConstraint(v string) bool { return strings.ContainsAny(v, "<>=!~, ") }

// checkVersion accepts a version, as a part of an address, or a constraint in the syntax of go-version.
func checkVersion(v string) error {
	if !isConstraint(v) {
		if strings.ContainsAny(v, "^*") {
			return errors.New("constraints have no ^ and no *; write ~> 0.9 or >= 0.9.0, < 1.0")
		}
		return checkSegment(v)
	}
	if _, err := version.NewConstraint(v); err != nil {
		return errors.New("it is neither a version nor a constraint such as >= 0.7.0, ~> 0.7 or > 0.6, < 0.9")
	}
	return nil
}

// catalogOf returns the catalog that the request names, or the configured one for its type and kind; empty if there is none, such as
// for a StepAction on Artifact Hub.
func catalogOf(r *resolve.Request) string {
	switch c := r.Get(ParamCatalog); {
	case c != "":
		return c
	case r.Get(ParamType) == TypeTekton:
		return r.Config[KeyTektonCatalog]
	case r.Get(ParamKind) == "task":
		return r.Config[KeyTaskCatalog]
	case r.Get(ParamKind) == "pipeline":
		return r.Config[KeyPipelineCatalog]
	}
	return ""
}

// baseURLs returns the addresses of the hubs to ask, in their order: the requester's alone, or the operator's.
func baseURLs(r *resolve.Request) []string {
	if u := r.Get(ParamURL); u != "" {
		return []string{u}
	}
	key := KeyArtifactURLs
	if r.Get(ParamType) == TypeTekton {
		key = KeyTektonURLs
	}
	urls, _ := parseURLs(r.Config[key]) // it was judged when it was configured
	return urls
}

// Resolve implements [resolve.Resolver].
func (h *Resolver) Resolve(ctx context.Context, r *resolve.Request) (*resolve.Resource, error) {
	guard, err := h.guards.Get(r.Config, r.Get(ParamURL) != "")
	if err != nil {
		return nil, err
	}
	var worst *resolve.Error
	for _, base := range baseURLs(r) {
		s := source{guard: guard, request: r, base: strings.TrimRight(base, "/")}
		res, failure := s.resolveResource(ctx)
		if failure == nil {
			return res, nil
		}
		if ctx.Err() != nil || failure.Reason == resolve.ReasonInvalid {
			return nil, failure
		}
		// One hub's "not found" is no answer if another hub could not be asked.
		if worst == nil || worst.Reason == resolve.ReasonNotFound || failure.Transient && !worst.Transient {
			worst = failure
		}
	}
	if worst == nil {
		return nil, resolve.Errorf(resolve.ReasonFailed, "no address of a hub is configured")
	}
	return nil, worst
}

// source is one hub.
type source struct {
	guard   *netguard.Guard
	request *resolve.Request
	base    string
}

// fetchJSON reads the answer for a path of the hub into a value, and returns the whole address. The answer is bounded by the limit of
// the content.
func (s source) fetchJSON(ctx context.Context, path string, into any) (string, *resolve.Error) {
	at := s.base + path
	answer, failure := s.guard.Get(ctx, netguard.Fetch{
		// JSON escapes make the content longer, and a list of versions comes with other text.
		URL: at, MaxBytes: 4*s.request.Limit() + 1<<20, Plain: s.request.Config[KeyPlain] == "true",
		Header: map[string][]string{"Accept": {"application/json"}},
	})
	if failure != nil {
		return "", failure
	}
	if err := json.Unmarshal(answer.Body, into); err != nil {
		u, _ := url.Parse(at)
		return "", resolve.Errorf(resolve.ReasonFailed, "%s does not answer as a hub does", netguard.Redact(u))
	}
	return at, nil
}

// resolveResource fetches from this hub. A constraint costs one more request, for the versions that there are. So does a missing
// version, so that the error can name others.
func (s source) resolveResource(ctx context.Context) (*resolve.Resource, *resolve.Error) {
	r := s.request
	tekton := r.Get(ParamType) == TypeTekton
	path := "/api/v1/packages/tekton-" + r.Get(ParamKind) + "/" + catalogOf(r) + "/" + r.Get(ParamName)
	if tekton {
		path = "/v1/resource/" + catalogOf(r) + "/" + r.Get(ParamKind) + "/" + r.Get(ParamName)
	}
	chosen := r.Get(ParamVersion)
	if isConstraint(chosen) {
		v, failure := s.chooseVersion(ctx, path, chosen)
		if failure != nil {
			return nil, failure
		}
		chosen = v
	} else {
		chosen = hubVersion(chosen, tekton)
	}
	resource := path
	path += "/" + url.PathEscape(chosen)
	if tekton {
		path += "/yaml"
	}
	var answer struct {
		Data struct {
			Manifest string `json:"manifestRaw"`
			YAML     string `json:"yaml"`
		} `json:"data"`
	}
	at, failure := s.fetchJSON(ctx, path, &answer)
	if failure != nil && failure.Reason == resolve.ReasonNotFound {
		failure = s.missingVersion(ctx, resource, chosen, failure)
	}
	if failure != nil {
		return nil, failure
	}
	text := answer.Data.Manifest
	if tekton {
		text = answer.Data.YAML
	}
	if n := int64(len(text)); n > r.Limit() {
		return nil, resolve.TooLarge("the content", n, r.Limit())
	}
	if text == "" {
		return nil, resolve.Errorf(resolve.ReasonNotFound, "the hub's answer for %s %s has no content", r.Get(ParamKind), r.Get(ParamName))
	}
	if resolve.SeveralDocuments([]byte(text)) {
		return nil, resolve.Errorf(resolve.ReasonFailed, "the hub's content for %s %s holds several YAML documents; one resource is wanted", r.Get(ParamKind), r.Get(ParamName))
	}
	return &resolve.Resource{
		Data:        []byte(text),
		Annotations: map[string]string{resolve.AnnotationContentType: resolve.ContentTypeYAML},
		Source:      resolve.Source{URI: at, Digest: resolve.SHA256([]byte(text))},
	}, nil
}

// maxVersions bounds the number of versions to compare.
const maxVersions = 10_000

// chooseVersion returns the highest version that satisfies a constraint, as Tekton does with the same library. Versions that the hub calls
// pre-releases satisfy none.
func (s source) chooseVersion(ctx context.Context, path, constraint string) (string, *resolve.Error) {
	c, err := version.NewConstraint(constraint)
	if err != nil {
		return "", resolve.Errorf(resolve.ReasonInvalid, "parameter %s is no constraint", ParamVersion)
	}
	all, failure := s.listVersions(ctx, path)
	if failure != nil {
		return "", failure
	}
	var best *version.Version
	var text string
	for _, l := range all[:min(len(all), maxVersions)] {
		v, err := version.NewVersion(l.Version)
		// A version becomes part of an address, and the hub chose it.
		if err != nil || l.Prerelease || len(l.Version) > 256 || checkSegment(strings.ReplaceAll(l.Version, "+", "_")) != nil || !c.Check(v) {
			continue
		}
		if best == nil || v.GreaterThanOrEqual(best) {
			best, text = v, l.Version
		}
	}
	if best == nil {
		return "", resolve.Errorf(resolve.ReasonNotFound, "none of the %d versions of %s %s satisfies %q%s",
			len(all), s.request.Get(ParamKind), s.request.Get(ParamName), constraint, versionsFor("", all))
	}
	return text, nil
}

// listed is a version in the answer of a hub.
type listed struct {
	Version    string `json:"version"`
	Prerelease bool   `json:"prerelease"`
}

// listVersions lists the versions of the resource at a path.
func (s source) listVersions(ctx context.Context, path string) ([]listed, *resolve.Error) {
	var answer struct {
		Available []listed `json:"available_versions"`
		Data      struct {
			Versions []listed `json:"versions"`
		} `json:"data"`
	}
	_, failure := s.fetchJSON(ctx, path, &answer)
	return append(answer.Available, answer.Data.Versions...), failure
}

// missingVersion returns the error for a version that the hub does not have, or the one that is given if the hub does not have the
// resource either.
func (s source) missingVersion(ctx context.Context, path, wanted string, failure *resolve.Error) *resolve.Error {
	all, other := s.listVersions(ctx, path)
	if other != nil || len(all) == 0 {
		return failure
	}
	u, err := url.Parse(s.base)
	if err != nil {
		return failure
	}
	return resolve.Errorf(resolve.ReasonNotFound, "%s has no version %s of %s %s%s", netguard.Redact(u), wanted, s.request.Get(ParamKind), s.request.Get(ParamName), versionsFor(wanted, all))
}

// versionsFor names the version that is nearest to the wanted one, if that is a version, and a few of all, the newest first.
func versionsFor(wanted string, all []listed) string {
	var versions []*version.Version
	for _, l := range all[:min(len(all), maxVersions)] {
		if v, err := version.NewVersion(l.Version); err == nil && len(l.Version) <= 64 {
			versions = append(versions, v)
		}
	}
	if len(versions) == 0 {
		return ""
	}
	slices.SortFunc(versions, func(a, b *version.Version) int { return b.Compare(a) })
	const most = 5
	var names []string
	for _, v := range versions[:min(len(versions), most)] {
		names = append(names, v.Original())
	}
	if len(versions) > most {
		names = append(names, "...")
	}
	text := "; there are " + strings.Join(names, ", ")
	if want, err := version.NewVersion(wanted); err == nil && len(versions) > 1 {
		near := slices.MinFunc(versions, func(a, b *version.Version) int { return slices.Compare(distanceOf(a, want), distanceOf(b, want)) })
		text = "; the nearest is " + near.Original() + text
	}
	return text
}

// distanceOf returns by how much two versions differ in each of their numbers.
func distanceOf(a, b *version.Version) []int64 {
	one, other := a.Segments64(), b.Segments64()
	out := make([]int64, min(len(one), len(other)))
	for i := range out {
		out[i] = max(one[i]-other[i], other[i]-one[i])
	}
	return out
}

// hubVersion brings a version into the hub's form: three numbers on Artifact Hub, two on Tekton Hub, and no v before them.
func hubVersion(v string, tekton bool) string {
	if rest, ok := strings.CutPrefix(v, "v"); ok && rest != "" && rest[0] >= '0' && rest[0] <= '9' {
		v = rest
	}
	parts := strings.Split(v, ".")
	switch {
	case !tekton && len(parts) == 1 && strings.Trim(v, "0123456789") == "":
		v += ".0.0"
	case !tekton && len(parts) == 2:
		v += ".0"
	case tekton && len(parts) > 2:
		v = parts[0] + "." + parts[1]
	}
	return v
}

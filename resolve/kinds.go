package resolve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation"

	"sluice.dev/internal/brief"
)

// This file decides which content leaves the resolver. Whoever can read a ResolutionRequest sees its content, so an operator can
// restrict it to kinds that are no secrets, for example Task.tekton.dev. Independent of that, it recognises what servers give in place
// of a file: a pointer of Git LFS, or the page that asks to sign in.

// KeyContentKinds is the key that every resolver has for the kinds that content may have. Every client that can read a request sees its
// content. So content that is not a resource for Tekton, such as a token or a Secret, should not be in it.
const KeyContentKinds = "content-kinds"

// TektonKinds is the value of [KeyContentKinds] that allows the kinds that Tekton's clients ask for.
const TektonKinds = "*.tekton.dev"

// Kind is an entry of a list of kinds, in lower case. Name may be *, for all of a group; All stands for all kinds of all groups.
type Kind struct {
	Name, Group string
	All         bool
}

// Matches reports whether the entry means a kind of a group. The case of the kind does not matter.
func (k Kind) Matches(kind, group string) bool {
	return k.All || k.Group == group && (k.Name == "*" || k.Name == strings.ToLower(kind))
}

const wantedKinds = "want *, or kinds such as Task.tekton.dev, *.tekton.dev, ConfigMap"

// ParseKinds reads a list of KIND.GROUP, KIND for the core group, *.GROUP and *, separated by commas or white space. Case does not
// matter. The error names the first entry that no object has, such as one with a version or in the plural.
func ParseKinds(list string) ([]Kind, error) {
	var out []Kind
	for _, entry := range SplitList(list) {
		if entry == "*" {
			out = append(out, Kind{All: true})
			continue
		}
		name, group, grouped := strings.Cut(strings.ToLower(entry), ".")
		if fault := faultOfKind(name, group, grouped); fault != "" {
			return nil, fmt.Errorf("%s: %s; %s", quoteShort(entry), fault, wantedKinds)
		}
		out = append(out, Kind{Name: name, Group: group})
	}
	if len(out) == 0 {
		return nil, errors.New("it names no kind; " + wantedKinds)
	}
	return out, nil
}

var (
	version = regexp.MustCompile(`\Av[0-9]+((alpha|beta)[0-9]+)?(\.|\z)`)
	// knownKinds are all kinds of the core group, and those of Tekton, whose plural is an error.
	knownKinds = map[string][]string{
		"": {
			"Binding", "ConfigMap", "Endpoints", "Event", "LimitRange", "Namespace", "Node", "PersistentVolume", "PersistentVolumeClaim", "Pod",
			"PodTemplate", "ReplicationController", "ResourceQuota", "Secret", "Service", "ServiceAccount",
		},
		"tekton.dev":            {"Task", "ClusterTask", "Pipeline", "StepAction", "TaskRun", "PipelineRun", "CustomRun", "Run", "VerificationPolicy"},
		"resolution.tekton.dev": {"ResolutionRequest"},
	}
	// shortGroups are the groups without a dot.
	shortGroups = []string{"apps", "autoscaling", "batch", "extensions", "policy"}
)

// faultOfKind says why no object is of a kind, in lower case; empty if one can be.
func faultOfKind(name, group string, grouped bool) string {
	meant := func(kind string) bool {
		return strings.EqualFold(name, kind+"s") || strings.EqualFold(name, kind[:len(kind)-1]+"ies")
	}
	known := func(kind string) bool { return strings.EqualFold(name, kind) }
	switch {
	case strings.Contains(name+group, "/"):
		return "it has a slash, for which a dot stands here, and no version"
	case name != "*" && len(validation.IsDNS1035Label(name)) > 0, grouped && len(validation.IsDNS1123Subdomain(group)) > 0:
		return "it is no kind"
	case version.MatchString(group):
		return "it has a version, which does not matter here"
	case grouped && !strings.Contains(group, ".") && !slices.Contains(shortGroups, group):
		return "there is no group " + group + brief.Hint(group, append([]string{"tekton.dev"}, shortGroups...))
	}
	if i := slices.IndexFunc(knownKinds[group], meant); i >= 0 && !slices.ContainsFunc(knownKinds[group], known) {
		return "it is in the plural; the kind is " + strings.TrimSuffix(knownKinds[group][i]+"."+group, ".")
	}
	if !grouped && !slices.ContainsFunc(knownKinds[""], known) {
		return "the core group has no such kind" + brief.Hint(name, knownKinds[""]) + "; other kinds have a group"
	}
	return ""
}

// largeContent is the size above which contents are parsed one at a time: a tree of YAML takes up to a hundred times the memory of
// its text.
const largeContent = 64 << 10

// checkKinds refuses content if one of its YAML documents has a kind that the configuration does not allow. It always refuses a pointer
// of Git LFS and an HTML page, which nobody asks for in place of the file.
func (r *Runner) checkKinds(ctx context.Context, c Config, data []byte) error {
	if is := standIn(data); is != "" {
		return Errorf(ReasonInvalid, "the content %s", is)
	}
	if c[KeyContentKinds] == "" {
		return nil
	}
	list, err := ParseKinds(c[KeyContentKinds])
	if err != nil {
		return Errorf(ReasonForbidden, "%s: %w", KeyContentKinds, err)
	}
	if slices.ContainsFunc(list, func(k Kind) bool { return k.All }) {
		return nil
	}
	if len(data) > largeContent {
		select {
		case r.parsing <- struct{}{}:
			defer func() { <-r.parsing }()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	refuse := func(what string) error {
		return Errorf(ReasonForbidden, "the content %s, and the operator allows only %s (%s)", what, strings.Join(SplitList(c[KeyContentKinds]), ", "), KeyContentKinds)
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	for n := 0; ; {
		// A node does not expand aliases.
		var doc yaml.Node
		err := dec.Decode(&doc)
		if errors.Is(err, io.EOF) && n > 0 {
			return nil
		}
		if err != nil || len(doc.Content) != 1 {
			return refuse(otherContent(data))
		}
		top := doc.Content[0]
		if top.Tag == "!!null" {
			continue
		}
		n++
		apiVersion, kind, ok := typeOf(top)
		group, _, grouped := strings.Cut(apiVersion, "/")
		if !grouped {
			group = ""
		}
		switch {
		case !ok:
			return refuse(otherContent(data))
		case !slices.ContainsFunc(list, func(k Kind) bool { return k.Matches(kind, group) }):
			return refuse("is of the kind " + quoteShort(kind) + " in " + quoteShort(apiVersion))
		}
	}
}

var (
	// lfsPointer matches the beginning of the file that Git LFS, also by its older names, puts in place of another one
	// (https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md).
	lfsPointer = regexp.MustCompile(`\A[\s\x{FEFF}]*version https?://(git-lfs\.github\.com/spec|hawser\.github\.com/spec|git-media\.io)/`)
	// htmlPage matches the beginning of a page, with what may stand before its first element.
	htmlPage = regexp.MustCompile(`(?is)\A([\s\x{FEFF}]|<!--.*?-->|<\?xml\b[^>]*>)*<(!doctype\s+html\b|(html|head|body|title|meta|link|script|style|form|div|table|iframe|h1|p|br|a|b)[\s/>])`)
)

// maxHead bounds the part of content that is searched for the beginning of a page, in bytes.
const maxHead = 64 << 10

// standIn says what content is that servers give in place of a file; empty for all other content.
func standIn(data []byte) string {
	head := data[:min(len(data), maxHead)]
	switch {
	case lfsPointer.Match(head):
		return "is a pointer of Git LFS in place of the file, and the resolver does not fetch such files"
	case htmlPage.Match(head):
		return "is an HTML page, such as one for signing in or one that shows a file; the file itself has another address, or needs a credential"
	}
	return ""
}

// otherContent says what content is that is no Kubernetes object.
func otherContent(data []byte) string {
	if bytes.HasPrefix(data, []byte("\x1f\x8b")) {
		return "is compressed by gzip"
	}
	return "is no Kubernetes object"
}

// typeOf reads apiVersion and kind. It ignores the case of names, as encoding/json does, because readers of the content may do so.
// A name that occurs twice gives no answer.
func typeOf(top *yaml.Node) (apiVersion, kind string, ok bool) {
	if top.Kind != yaml.MappingNode {
		return "", "", false
	}
	found := map[string]string{}
	for i := 0; i+1 < len(top.Content); i += 2 {
		key, value := top.Content[i], top.Content[i+1]
		name := strings.ToLower(key.Value)
		// Such keys bring fields from elsewhere, which this function does not see.
		if key.Kind == yaml.AliasNode || key.Tag == "!!merge" {
			return "", "", false
		}
		if name != "apiversion" && name != "kind" {
			continue
		}
		if _, twice := found[name]; twice || value.Kind != yaml.ScalarNode || value.Tag != "!!str" || key.Value != "kind" && key.Value != "apiVersion" {
			return "", "", false
		}
		found[name] = value.Value
	}
	return found["apiversion"], found["kind"], found["apiversion"] != "" && found["kind"] != ""
}

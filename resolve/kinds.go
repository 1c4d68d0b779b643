package resolve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// KeyContentKinds is the key that every resolver has for the kinds that content may have. Every client that can read a request sees its
// content. So content that is not a resource for Tekton, such as a token or a Secret, should not be in it.
const KeyContentKinds = "content-kinds"

// TektonKinds is the value of [KeyContentKinds] that allows the kinds that Tekton's clients ask for.
const TektonKinds = "*.tekton.dev"

var kindPattern = regexp.MustCompile(`\A(\*|[A-Za-z][A-Za-z0-9]*)(\.[a-z0-9]([-a-z0-9.]*[a-z0-9])?)?\z`)

func checkContentKinds(v string) error {
	list := SplitList(v)
	if len(list) == 0 {
		return errors.New("it names no kind; want *, or kinds such as Task.tekton.dev, *.tekton.dev, ConfigMap")
	}
	for _, k := range list {
		if !kindPattern.MatchString(k) {
			return fmt.Errorf("%s is no kind; want *, or kinds such as Task.tekton.dev, *.tekton.dev, ConfigMap", quoteShort(k))
		}
	}
	return nil
}

// kindAllowed matches KIND.GROUP, KIND for the core group, *.GROUP for all of a group, and * for all.
func kindAllowed(list []string, apiVersion, kind string) bool {
	group, _, grouped := strings.Cut(apiVersion, "/")
	if !grouped {
		group = ""
	}
	for _, k := range list {
		name, of, _ := strings.Cut(k, ".")
		if k == "*" || of == group && (name == kind || name == "*" && of != "") {
			return true
		}
	}
	return false
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
	list := SplitList(c[KeyContentKinds])
	if len(list) == 0 || len(list) == 1 && list[0] == "*" {
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
		return Errorf(ReasonForbidden, "the content %s, and the operator allows only %s (%s)", what, strings.Join(list, ", "), KeyContentKinds)
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
		switch {
		case !ok:
			return refuse(otherContent(data))
		case !kindAllowed(list, apiVersion, kind):
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

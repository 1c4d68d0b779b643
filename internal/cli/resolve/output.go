package resolve

// How is a fetched resource printed? By default as it was fetched, several as one YAML stream. As json and yaml it
// comes with what was asked for, where it was found, and its digests; name prints the objects in it as kubectl
// names them.

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"sluice.dev/api/resolution/v1beta1"
	"sluice.dev/internal/cli/command"
	"sluice.dev/internal/controller/resolution"
	"sluice.dev/resolve"
)

// Version and kinds of what sluice resolve prints with -o json and -o yaml.
const (
	KindResolved     = "ResolvedResourceList"
	KindRequestsList = "ResolutionRequestSummaryList"
)

// resolved is a resource with what was asked for.
type resolved struct {
	// Request is NAMESPACE/NAME of the request in a cluster, empty where there was none.
	Request string
	// From is where the reference stands that led to it, in another resource; empty for what was asked for.
	From     string
	Resolver string
	Params   []v1beta1.Param
	*resolve.Resource
}

// ResolvedList has the resolved resources, for programs.
type ResolvedList struct {
	command.Document `json:",inline"`
	Items            []resolvedItem `json:"items"`
}

// resolvedItem is a fetched resource for programs.
type resolvedItem struct {
	Request string `json:"request,omitempty"`
	// From is the path of the reference that led to it.
	From     string          `json:"from,omitempty"`
	Resolver string          `json:"resolver"`
	Params   []v1beta1.Param `json:"params,omitempty"`
	// Resources are the documents of the content, where all of it is YAML.
	Resources []any `json:"resources,omitempty"`
	// Content is the text as it was found, ContentBase64 what is no text.
	Content       string             `json:"content,omitempty"`
	ContentBase64 string             `json:"contentBase64,omitempty"`
	RefSource     *v1beta1.RefSource `json:"refSource,omitempty"`
	Annotations   map[string]string  `json:"annotations,omitempty"`
	// Immutable: the same parameters will always give the same content.
	Immutable bool `json:"immutable,omitempty"`
}

// printResolved prints what was fetched. All of it is printed at the end, so that an error in the middle leaves no
// half of a stream.
func printResolved(e *command.Env, format string, list []resolved) error {
	var out bytes.Buffer
	switch format {
	case "json", "yaml":
		doc := ResolvedList{Document: command.DocumentOf(KindResolved), Items: []resolvedItem{}}
		for _, r := range list {
			doc.Items = append(doc.Items, r.outputItem())
		}
		if err := printAs(&out, format, doc); err != nil {
			return err
		}
	case "name":
		for _, r := range list {
			for _, name := range objectNames(r.Data) {
				fmt.Fprintln(&out, name)
			}
		}
	default:
		for i, r := range list {
			if i > 0 {
				if !bytes.HasSuffix(out.Bytes(), []byte("\n")) {
					out.WriteByte('\n')
				}
				if !bytes.HasPrefix(r.Data, []byte("---")) {
					out.WriteString("---\n")
				}
			}
			out.Write(r.Data)
		}
	}
	_, err := e.Out.Write(out.Bytes())
	return err
}

// printAs prints a document. Unlike [command.Encode] it escapes <, > and & in JSON, as encoding/json does by default.
func printAs(w io.Writer, format string, doc any) error {
	if format == "yaml" {
		return command.PrintDocument(w, format, doc)
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(doc)
}

// outputItem is a resource for programs. Content that is valid UTF-8 is text, any other is in base64. Resources is
// nil if the content is not all YAML objects.
func (r resolved) outputItem() resolvedItem {
	out := resolvedItem{
		Request: r.Request, From: r.From, Resolver: r.Resolver, Params: r.Params, Annotations: r.Annotations, Immutable: r.Immutable,
		RefSource: refSource(r.Resource),
	}
	if utf8.Valid(r.Data) {
		out.Content = string(r.Data)
	} else {
		out.ContentBase64 = base64.StdEncoding.EncodeToString(r.Data)
	}
	out.Resources, _ = objectsInStream(r.Data)
	return out
}

// objectsInStream are the documents of content that is a stream of YAML objects. It fails if one of them is no
// mapping.
func objectsInStream(data []byte) ([]any, error) {
	docs, err := splitDocuments(data)
	if err != nil {
		return nil, err
	}
	var out []any
	for _, doc := range docs {
		var o map[string]any
		if err := yaml.Unmarshal(doc, &o); err != nil {
			return nil, err
		}
		out = append(out, o)
	}
	return out, nil
}

// objectNames names the Kubernetes objects in content, as kubectl does: kind.group/name.
func objectNames(data []byte) []string {
	var out []string
	list, err := objectsInStream(data)
	if err != nil {
		return nil
	}
	for _, o := range list {
		content, _ := o.(map[string]any)
		object := unstructured.Unstructured{Object: content}
		if is := object.GroupVersionKind(); is.Kind != "" && object.GetName() != "" {
			out = append(out, schema.GroupKind{Group: is.Group, Kind: strings.ToLower(is.Kind)}.String()+"/"+object.GetName())
		}
	}
	return out
}

// Warn prints the warnings that a resource carries: parameters without effect, and signatures that a policy only warns of.
func Warn(e *command.Env, what string, res *resolve.Resource) {
	for _, name := range []string{resolve.AnnotationWarning, resolution.AnnotationUnverified} {
		if text := res.Annotations[name]; text != "" {
			fmt.Fprintf(e.Err, "warning: %s: %s\n", what, text)
		}
	}
}

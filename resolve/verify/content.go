package verify

import (
	"bytes"
	"cmp"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"path"
	"slices"
	"strings"

	yamlv2 "go.yaml.in/yaml/v2"
	"golang.org/x/net/idna"
	"sigs.k8s.io/yaml"

	"sluice.dev/internal/brief"
	"sluice.dev/internal/sourceurl"
)

// Two things are easy to get wrong here. A signature must cover what is used: so content that two parsers could read in two ways is
// refused. And a policy must match each spelling of a place: so a source is brought into all its forms. For example, a policy for
// https://github.com/team/.* holds for git@ssh.github.com:team/repo.git as well.

// AnnotationSignature is the annotation with the signature of a resource, in standard base64, as in Tekton's trusted resources.
const AnnotationSignature = "tekton.dev/signature"

// maxSigned bounds the content that is parsed to verify its signature. The API server accepts no objects beyond 3 MiB.
const maxSigned = 4 << 20

// systemMetadata are the fields of metadata that the API server fills in. No signature covers them. So a resource that was signed
// as a file remains signed after it has been in a cluster.
var systemMetadata = []string{
	"creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "generation", "managedFields",
	"resourceVersion", "selfLink", "uid",
}

// clientAnnotations are annotations of kubectl. No signature covers them.
var clientAnnotations = []string{"kubectl-client-side-apply", "kubectl.kubernetes.io/last-applied-configuration"}

// Payload returns the payload of a signature in a resource, and the signature of the resource, nil if it has none.
//
// The payload is the resource as JSON with sorted keys and without white space. It omits the annotation with the signature,
// kubectl's annotations and the fields of metadata that an API server fills in. As in Tekton, the signature is over the 32 bytes of
// the payload's SHA-256. Tekton's payload is the JSON of its Go types, in the order of their fields. This package does not have
// those types, so signatures of one are not valid for the other.
//
// Content is an error if it is not exactly one YAML or JSON document with an object, has a key twice or is over 4 MiB.
func Payload(data []byte) (payload, signature []byte, err error) {
	obj, err := readObject(data)
	if err != nil {
		return nil, nil, err
	}
	meta, ok := obj["metadata"].(map[string]any)
	if !ok && obj["metadata"] != nil {
		return nil, nil, errors.New("its metadata is not an object")
	}
	for _, k := range systemMetadata {
		delete(meta, k)
	}
	annotations, ok := meta["annotations"].(map[string]any)
	if !ok && meta["annotations"] != nil {
		return nil, nil, errors.New("its annotations are not an object")
	}
	if text, found := annotations[AnnotationSignature]; found {
		s, ok := text.(string)
		if !ok {
			return nil, nil, fmt.Errorf("the annotation %s is not a string", AnnotationSignature)
		}
		signature, err = base64.StdEncoding.DecodeString(s)
		if err != nil || len(signature) == 0 {
			return nil, nil, fmt.Errorf("the annotation %s is not base64", AnnotationSignature)
		}
		delete(annotations, AnnotationSignature)
	}
	for _, k := range clientAnnotations {
		delete(annotations, k)
	}
	if len(annotations) == 0 {
		delete(meta, "annotations")
	}
	payload, err = json.Marshal(obj)
	return payload, signature, err
}

// Sign returns the value of the annotation tekton.dev/signature for a resource. It ignores an existing signature. ECDSA, RSA and
// Ed25519 keys can sign, if they are at least as strong as [New] demands.
func Sign(data []byte, key crypto.Signer) (string, error) {
	if err := checkKeyStrength(key.Public()); err != nil {
		return "", err
	}
	payload, _, err := Payload(data)
	if err != nil {
		return "", err
	}
	message := digestOf(payload)
	var opts crypto.SignerOpts = crypto.SHA256
	toSign := digestOf(message)
	if _, ok := key.Public().(ed25519.PublicKey); ok {
		opts, toSign = crypto.Hash(0), message
	}
	sig, err := key.Sign(rand.Reader, toSign, opts)
	if err != nil {
		return "", err
	}
	return base64.StdEncoding.EncodeToString(sig), nil
}

func digestOf(b []byte) []byte {
	sum := sha256.Sum256(b)
	return sum[:]
}

// readObject reads content as Kubernetes' clients do, but refuses content that two parsers could read in two ways.
func readObject(data []byte) (map[string]any, error) {
	if len(data) > maxSigned {
		return nil, fmt.Errorf("it is over %d bytes, too large to check a signature", maxSigned)
	}
	if err := oneDocument(data); err != nil {
		return nil, err
	}
	text, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return nil, fmt.Errorf("it is not valid YAML: %s", brief.OneLine(err.Error()))
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var obj map[string]any
	if err := dec.Decode(&obj); err != nil || obj == nil {
		return nil, errors.New("it is not a YAML object")
	}
	return obj, nil
}

// oneDocument counts documents with the parser that later reads the content. A signature covers one document; a second one could be
// applied unsigned.
func oneDocument(data []byte) error {
	dec := yamlv2.NewDecoder(bytes.NewReader(data))
	for i := 0; ; i++ {
		var doc any
		err := dec.Decode(&doc)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("it is not valid YAML: %s", brief.OneLine(err.Error()))
		case i > 0 && doc != nil:
			return errors.New("it holds several YAML documents, of which a signature covers one")
		case i > 16:
			return errors.New("it holds too many YAML documents")
		}
	}
}

// signedContent is a resource without the parts that no signature covers.
type signedContent struct {
	message, signature []byte
	err                error
}

// readSigned reads the content once for all policies. Its error is the reason why no signature of it counts.
func readSigned(data []byte) *signedContent {
	payload, sig, err := Payload(data)
	if err == nil && sig == nil {
		err = fmt.Errorf("the resource has no annotation %s", AnnotationSignature)
	}
	return &signedContent{message: digestOf(payload), signature: sig, err: err}
}

// uriForms returns the forms of a source's URI that patterns are matched with: the URI itself, the URI without git+, and a
// canonical form. So other spellings of one place cannot escape a policy. For a git repository, which has the prefix git+, it
// returns all spellings.
func uriForms(uri string) []string {
	bare, git := strings.CutPrefix(uri, gitPrefix)
	forms := []string{uri, bare}
	u, err := url.Parse(bare)
	if git && (err != nil || u.Host == "") {
		u, err = parseSCP(bare)
	}
	if err == nil && u.Host != "" {
		user := u.User.Username()
		u.User = nil
		u.Scheme = strings.ToLower(u.Scheme)
		host, port := strings.ToLower(u.Hostname()), strings.TrimLeft(u.Port(), "0")
		// Clients of HTTP connect to the IDNA form of a name, which has more than one spelling.
		if ascii, err := idna.Lookup.ToASCII(host); err == nil {
			host = ascii
		}
		host = strings.TrimSuffix(host, ".")
		if strings.Contains(host, ":") {
			host = "[" + host + "]"
		}
		if port == "" || (u.Scheme == "https" && port == "443") || (u.Scheme == "http" && port == "80") || (u.Scheme == "ssh" && port == "22") {
			u.Host = host
		} else {
			u.Host = net.JoinHostPort(strings.Trim(host, "[]"), port)
		}
		if u.Path != "" {
			u.Path, u.RawPath = path.Clean(u.Path), ""
		}
		forms = append(forms, u.String(), gitPrefix+u.String(), strings.TrimSuffix(u.String(), ".git"), u.String()+".git")
		if git {
			forms = append(forms, repositoryForms(user, host, u.Path)...)
		}
	}
	slices.Sort(forms)
	return slices.Compact(forms)
}

const gitPrefix = "git+"

// ServerOf returns the host whose repositories a host serves, by which patterns of policies know them: github.com for
// ssh.github.com, and the host itself for most.
func ServerOf(host string) string { return sourceurl.ServerOf(host) }

// repositoryForms returns the spellings of one repository for each protocol of git. The port of one protocol does not apply to
// others, so these forms have none.
func repositoryForms(user, host, file string) []string {
	file = strings.TrimSuffix(strings.Trim(file, "/"), ".git")
	users := slices.Compact([]string{"git", cmp.Or(user, "git")})
	var out []string
	for _, h := range slices.Compact([]string{host, ServerOf(host)}) {
		heads := []string{"https://" + h + "/", "http://" + h + "/", "git://" + h + "/", "ssh://" + h + "/", h + ":"}
		for _, u := range users {
			heads = append(heads, "ssh://"+u+"@"+h+"/", u+"@"+h+":")
		}
		for _, head := range heads {
			for _, prefix := range []string{"", gitPrefix} {
				out = append(out, prefix+head+file, prefix+head+file+".git")
			}
		}
	}
	return out
}

// parseSCP parses USER@HOST:PATH, as for scp.
func parseSCP(s string) (*url.URL, error) {
	head, file, ok := strings.Cut(s, ":")
	user, host, hasUser := strings.Cut(head, "@")
	if !hasUser {
		user, host = "", head
	}
	if !ok || host == "" || strings.Contains(head, "/") {
		return nil, errors.New("it is no address")
	}
	return &url.URL{Scheme: "ssh", User: url.User(user), Host: host, Path: "/" + strings.TrimLeft(file, "/")}, nil
}

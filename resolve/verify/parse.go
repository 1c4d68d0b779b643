package verify

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"

	yamlv2 "go.yaml.in/yaml/v2"
	"sigs.k8s.io/yaml"

	"sluice.dev/internal/brief"
	"sluice.dev/resolve"
)

// Policies are read strictly: an unknown field, another kind or an empty stream is an error. A policy that was misread would let
// unsigned content pass.

// document is a VerificationPolicy of tekton.dev/v1alpha1 with two additions: our form, and keyless as in policy.sigstore.dev's
// ClusterImagePolicy.
type document struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace,omitempty"`
	} `json:"metadata"`
	Spec struct {
		Resources []struct {
			Pattern string `json:"pattern"`
		} `json:"resources"`
		Authorities []struct {
			Name    string        `json:"name"`
			Key     *authorityKey `json:"key,omitempty"`
			Keyless *struct {
				Identities  []Identity `json:"identities"`
				TrustedRoot string     `json:"trustedRoot,omitempty"`
			} `json:"keyless,omitempty"`
		} `json:"authorities"`
		Mode Mode `json:"mode,omitempty"`
		Form Form `json:"form,omitempty"`
	} `json:"spec"`
}

type authorityKey struct {
	SecretRef *struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace,omitempty"`
	} `json:"secretRef,omitempty"`
	Data          string `json:"data,omitempty"`
	KMS           string `json:"kms,omitempty"`
	HashAlgorithm string `json:"hashAlgorithm,omitempty"`
}

const maxPolicyBytes = 1 << 20

// Parse reads a YAML stream of objects in the form of Tekton's VerificationPolicy (tekton.dev/v1alpha1): resources with patterns,
// authorities with a key each (data, kms or secretRef) and a mode. Two fields are not Tekton's: form chooses the form of the
// signature, and keyless, in place of key, has identities and a trustedRoot. Policies are named NAMESPACE/NAME, or NAME if there is
// no namespace.
//
// secrets reads a Secret, which must have exactly one entry; if secrets is nil, a secretRef is an error. Unknown fields, other
// kinds and empty streams are errors, because a policy that is not read does not protect.
func Parse(ctx context.Context, stream []byte, secrets resolve.Secrets) ([]Policy, error) {
	if len(stream) > maxPolicyBytes {
		return nil, fmt.Errorf("the policies are over %d bytes", maxPolicyBytes)
	}
	dec := yamlv2.NewDecoder(bytes.NewReader(stream))
	dec.SetStrict(true)
	var out []Policy
	for n := 1; ; n++ {
		var raw any
		err := dec.Decode(&raw)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("document %d: %s", n, brief.OneLine(err.Error()))
		}
		if raw == nil {
			continue
		}
		p, err := parseDocument(ctx, raw, secrets)
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", n, err)
		}
		out = append(out, p)
		if len(out) > maxPolicies {
			return nil, fmt.Errorf("there are more than %d policies", maxPolicies)
		}
	}
	if len(out) == 0 {
		return nil, errors.New("there is no policy")
	}
	return out, nil
}

// parseDocument reads one policy. It writes the document as YAML again, since the strict reader of Kubernetes' types takes text; the
// decoder of the stream has refused keys that occur twice.
func parseDocument(ctx context.Context, raw any, secrets resolve.Secrets) (Policy, error) {
	text, err := yamlv2.Marshal(raw)
	if err != nil {
		return Policy{}, err
	}
	var d document
	if err := yaml.UnmarshalStrict(text, &d); err != nil {
		return Policy{}, err
	}
	if d.APIVersion != "tekton.dev/v1alpha1" || d.Kind != "VerificationPolicy" {
		return Policy{}, fmt.Errorf("it is %s %q, not VerificationPolicy of tekton.dev/v1alpha1", d.APIVersion, d.Kind)
	}
	p := Policy{Name: d.Metadata.Name, Mode: d.Spec.Mode, Form: d.Spec.Form}
	if d.Metadata.Namespace != "" {
		p.Name = d.Metadata.Namespace + "/" + p.Name
	}
	for _, r := range d.Spec.Resources {
		p.Patterns = append(p.Patterns, r.Pattern)
	}
	for _, a := range d.Spec.Authorities {
		if (a.Key == nil) == (a.Keyless == nil) {
			return Policy{}, fmt.Errorf("the authority %q has to have exactly one of key and keyless", a.Name)
		}
		if a.Keyless != nil {
			if len(a.Keyless.Identities) == 0 {
				return Policy{}, fmt.Errorf("the authority %q names no identities; an issuer alone signs for anybody", a.Name)
			}
			for _, id := range a.Keyless.Identities {
				id.Name, id.TrustedRoot = cmp.Or(id.Name, a.Name), cmp.Or(id.TrustedRoot, a.Keyless.TrustedRoot)
				p.Identities = append(p.Identities, id)
			}
			continue
		}
		k := Key{Name: a.Name, PEM: a.Key.Data, KMS: a.Key.KMS, Hash: a.Key.HashAlgorithm}
		if ref := a.Key.SecretRef; ref != nil {
			if k.PEM != "" || k.KMS != "" {
				return Policy{}, fmt.Errorf("the authority %q has several keys; one of data, kms and secretRef is wanted", a.Name)
			}
			namespace := cmp.Or(ref.Namespace, d.Metadata.Namespace)
			if k.PEM, err = secretKey(ctx, secrets, namespace, ref.Name); err != nil {
				return Policy{}, fmt.Errorf("the authority %q: %w", a.Name, err)
			}
		}
		p.Keys = append(p.Keys, k)
	}
	return p, nil
}

// secretKey returns the only entry of a Secret, whatever its name is: Tekton reads policies so (pkg/trustedresources/verifier).
func secretKey(ctx context.Context, secrets resolve.Secrets, namespace, name string) (string, error) {
	if secrets == nil {
		return "", errors.New("secretRef cannot be read here; use data")
	}
	data, err := secrets.Secret(ctx, namespace, name)
	if err != nil {
		return "", err
	}
	data = maps.Clone(data)
	delete(data, resolve.SecretHosts) // an annotation, not an entry
	if len(data) != 1 {
		return "", fmt.Errorf("the secret %s/%s has %d entries; one, the public key, is wanted", namespace, name, len(data))
	}
	for _, v := range data {
		return string(v), nil
	}
	return "", nil
}

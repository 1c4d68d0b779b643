package compat

// Which text stands for exactly this change, in the annotation that allows an unsafe upgrade? For example, the digest of a manifest is that
// of the object that the API server stores for it, so that both can be used.

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"sluice.dev/schema/upstream"
)

// SpecDigest returns the SHA-256 of the spec of crd, in 64 hexadecimal digits. It is the same for a manifest and for the object
// that the API server stores for it: it includes defaults, and leaves out the CA bundle of a conversion webhook, which others write
// and renew.
//
// The hash is of the spec as JSON: without white space, keys in the order of their bytes, no more escaped than JSON demands (and
// U+2028 and U+2029), numbers in their shortest form. The error means that the spec cannot be read, for example because a schema is
// too deep.
func SpecDigest(crd *apiextensionsv1.CustomResourceDefinition) (string, error) {
	spec, err := upstream.StoredSpec(crd)
	if err != nil {
		return "", err
	}
	if c := spec.Conversion; c != nil && c.Webhook != nil && c.Webhook.ClientConfig != nil {
		c.Webhook.ClientConfig.CABundle = nil
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return "", fmt.Errorf("CRD %s: %w", crd.Name, err)
	}
	// The encoder writes the fields of structs in the order of their declaration, which a later version of
	// Kubernetes may change.
	// Once more by way of maps: their keys are sorted, and whole numbers stay whole.
	var plain any
	if err := utiljson.Unmarshal(text, &plain); err != nil {
		return "", fmt.Errorf("CRD %s: %w", crd.Name, err)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(plain); err != nil {
		return "", fmt.Errorf("CRD %s: %w", crd.Name, err)
	}
	sum := sha256.Sum256(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
	return fmt.Sprintf("%x", sum), nil
}

// RemovalDigest is the counterpart of [SpecDigest] for the deletion of crd: the SHA-256 of the text "delete NAME UID". It is valid
// for this CRD only, not for a later one of the same name.
func RemovalDigest(crd *apiextensionsv1.CustomResourceDefinition) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "delete %s %s", crd.Name, crd.UID))
	return fmt.Sprintf("%x", sum)
}

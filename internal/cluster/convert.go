package cluster

import (
	"context"
	"encoding/json"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/utils/ptr"

	"sluice.dev/internal/limit"
)

// What a check of a conversion webhook needs from the cluster: the stored objects, and the webhook's answer to a review. The webhook
// is reached by the API server's proxy, because a user's machine has no way to a Service.

// maxAnswer bounds the answer of a conversion webhook.
const maxAnswer = 256 << 20

// Objects lists the stored objects of a CRD in a version, page by page, without metadata.managedFields.
func (c *Cluster) Objects(ctx context.Context, live *apiextensionsv1.CustomResourceDefinition, version string, page func(objects []map[string]any) error) error {
	var objects []map[string]any
	o := EachOptions{Page: func(int64) error {
		err := page(objects)
		objects = nil
		return err
	}}
	return c.Each(ctx, "/apis/"+live.Spec.Group+"/"+version+"/"+live.Spec.Names.Plural, o, func(raw []byte) error {
		obj, err := decodeObject(raw)
		if err != nil {
			return err
		}
		// The API server leaves both out of the items of some lists.
		obj["apiVersion"], obj["kind"] = live.Spec.Group+"/"+version, live.Spec.Names.Kind
		objects = append(objects, obj)
		return nil
	})
}

// AskService posts a review to the service of a conversion webhook, by way of the API server's proxy. The proxy does not verify the
// certificate of the service. The user needs the verb create on services/proxy.
func (c *Cluster) AskService(ctx context.Context, s *apiextensionsv1.ServiceReference, review *apiextensionsv1.ConversionReview) (*apiextensionsv1.ConversionReview, error) {
	body, err := json.Marshal(review)
	if err != nil {
		return nil, err
	}
	port, path := ptr.Deref(s.Port, 443), ptr.Deref(s.Path, "")
	stream, err := c.rest.Post().AbsPath("/api/v1/namespaces", s.Namespace, "services", fmt.Sprintf("https:%s:%d", s.Name, port), "proxy", path).
		SetHeader("Content-Type", "application/json").Body(body).Stream(ctx)
	if err != nil {
		return nil, explainAccess(err)
	}
	defer stream.Close() //nolint:errcheck // it was only read
	text, err := limit.ReadAll(stream, maxAnswer)
	if err != nil {
		return nil, err
	}
	answer := &apiextensionsv1.ConversionReview{}
	return answer, json.Unmarshal(text, answer)
}

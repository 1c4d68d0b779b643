// Command older answers as an API server of Kubernetes 1.32 does, by its own code: the last version that does not ratchet writes of the status.
// Each line of standard input is a question in JSON, and each line of standard output the answer to it.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// question is about the update of an object of a schema, or, with CRD, about the update of a CRD.
type question struct {
	Schema      *apiextensionsv1.JSONSchemaProps
	Old, New    object
	Status      bool // through the status subresource
	CRD, OldCRD *apiextensionsv1.CustomResourceDefinition
}

// object has whole numbers as the API server reads them.
type object map[string]any

// UnmarshalJSON implements [json.Unmarshaler].
func (o *object) UnmarshalJSON(data []byte) error {
	return utiljson.Unmarshal(data, (*map[string]any)(o))
}

func errorsOf(q *question) (field.ErrorList, error) {
	if q.CRD != nil {
		return errorsOfCRD(q)
	}
	internal := &apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(q.Schema, internal, nil); err != nil {
		return nil, err
	}
	structural, err := structuralschema.NewStructural(internal)
	if err != nil {
		return nil, err
	}
	all, _, err := validation.NewSchemaValidator(internal)
	if err != nil {
		return nil, err
	}
	var ofStatus validation.SchemaValidator
	if s, ok := internal.Properties["status"]; ok {
		if ofStatus, _, err = validation.NewSchemaValidator(&s); err != nil {
			return nil, err
		}
	}
	obj, old := &unstructured.Unstructured{Object: q.New}, &unstructured.Unstructured{Object: q.Old}
	kind := schema.FromAPIVersionAndKind(obj.GetAPIVersion(), obj.GetKind())
	subresource := &apiextensions.CustomResourceSubresourceStatus{}
	strategy := customresource.NewStrategy(nil, obj.GetNamespace() != "", kind, all, ofStatus, structural, subresource, nil, nil)
	if q.Status {
		ofRequests := customresource.NewStatusStrategy(strategy)
		ofRequests.PrepareForUpdate(context.Background(), obj, old)
		return ofRequests.ValidateUpdate(context.Background(), obj, old), nil
	}
	strategy.PrepareForUpdate(context.Background(), obj, old)
	return strategy.ValidateUpdate(context.Background(), obj, old), nil
}

func errorsOfCRD(q *question) (field.ErrorList, error) {
	crd, old := &apiextensions.CustomResourceDefinition{}, &apiextensions.CustomResourceDefinition{}
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(q.CRD, crd, nil); err != nil {
		return nil, err
	}
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(q.OldCRD, old, nil); err != nil {
		return nil, err
	}
	return crdvalidation.ValidateCustomResourceDefinitionUpdate(context.Background(), crd, old), nil
}

func answerQuestions(in io.Reader, out io.Writer) error {
	questions, answers := json.NewDecoder(bufio.NewReader(in)), json.NewEncoder(out)
	for {
		var q question
		if err := questions.Decode(&q); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		errs, err := errorsOf(&q)
		if err != nil {
			return err
		}
		texts := []string{}
		for _, e := range errs {
			texts = append(texts, e.Error())
		}
		if err := answers.Encode(texts); err != nil {
			return err
		}
	}
}

func main() {
	if err := answerQuestions(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

package migrate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/yaml"
)

func entry(manager, apiVersion, fields string, operation metav1.ManagedFieldsOperationType, second int64) metav1.ManagedFieldsEntry {
	when := metav1.NewTime(time.Unix(second, 0))
	return metav1.ManagedFieldsEntry{Manager: manager, Operation: operation, APIVersion: apiVersion, Time: &when, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields)}
}

func TestEntriesOfAnOwnerBecomeOne(t *testing.T) {
	const apply, update = metav1.ManagedFieldsOperationApply, metav1.ManagedFieldsOperationUpdate
	owners := []metav1.ManagedFieldsEntry{
		entry("kubectl", "g/v1beta1", `{"f:spec":{"f:a":{}}}`, apply, 1),
		entry("c", "g/v1beta1", `{"f:spec":{"f:b":{},"f:gone":{}}}`, update, 2),
		entry("c", "g/v1", `{"f:spec":{"f:c":{}}}`, update, 1),
		entry("c", "g/v2", `{"f:spec":{"f:d":{}}}`, update, 1),
	}
	got, err := rewriteOwners(owners, func(v string) bool { return v == "g/v1beta1" }, "g/v1", func(p fieldpath.Path) bool { return !strings.Contains(p.String(), "gone") })
	if err != nil {
		t.Fatal(err)
	}
	want := []metav1.ManagedFieldsEntry{
		entry("kubectl", "g/v1", `{"f:spec":{"f:a":{}}}`, apply, 1),
		entry("c", "g/v1", `{"f:spec":{"f:b":{},"f:c":{}}}`, update, 2),
		entry("c", "g/v2", `{"f:spec":{"f:d":{}}}`, update, 1),
	}
	text := func(list []metav1.ManagedFieldsEntry) string {
		out, err := json.MarshalIndent(list, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	if diff := cmp.Diff(text(want), text(got)); diff != "" {
		t.Error(diff)
	}
}

func TestWhichVersionsMayGo(t *testing.T) {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	crd.Spec.Group = "g"
	crd.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{
		{Name: "v1", Served: true, Storage: true}, {Name: "v1beta1", Served: true}, {Name: "v2", Served: true}, {Name: "v3", Served: true, Deprecated: true}, {Name: "v4"}, {Name: "v5", Served: true},
	}
	crd.Status.StoredVersions = []string{"v5", "v1"}
	r := &run{crd: crd}
	r.StorageVersion = "v1"
	var got []string
	for _, v := range []string{"g/v1", "g/v1beta1", "g/v2", "g/v3", "g/v4", "g/v5", "g/gone", "other/v1", "", "a/b/c"} {
		if r.isLeaving(v) {
			got = append(got, v)
		}
	}
	if want := []string{"g/v1beta1", "g/v3", "g/v4", "g/v5", "g/gone", "other/v1"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestAStateThatCannotBeReadIsNone(t *testing.T) {
	s := state{version: "v1", uid: "3f-a", since: "4711", generation: 3}
	if got, ok := parseState(s.String()); !ok || got != s {
		t.Errorf("%+v of %q", got, s)
	}
	for _, text := range []string{"", "rewriting", s.String() + " ", strings.Replace(s.String(), "3", "x", 1), strings.Replace(s.String(), "generation 3", "generation 99999999999999999999", 1)} {
		if got, ok := parseState(text); ok {
			t.Errorf("%q is read as %+v", text, got)
		}
	}
}

func TestMappings(t *testing.T) {
	for text, want := range map[string]string{
		".spec.engine:mariadb=mysql":      `{"spec":{"engine":"mysql","n":3,"parts":[{"size":"s"},{}],"tags":["a","b"]}}`,
		".spec.n:3=4":                     `{"spec":{"engine":"mariadb","n":4,"parts":[{"size":"s"},{}],"tags":["a","b"]}}`,
		".spec.engine:mariadb=8.0":        `{"spec":{"engine":"8.0","n":3,"parts":[{"size":"s"},{}],"tags":["a","b"]}}`,
		".spec.engine:mariadb=mariadb":    `{"spec":{"engine":"mariadb","n":3,"parts":[{"size":"s"},{}],"tags":["a","b"]}}`,
		".spec.n:30=4":                    `{"spec":{"engine":"mariadb","n":3,"parts":[{"size":"s"},{}],"tags":["a","b"]}}`,
		".spec.parts[*].size:=small":      `{"spec":{"engine":"mariadb","n":3,"parts":[{"size":"s"},{"size":"small"}],"tags":["a","b"]}}`,
		".spec.tags[*]:a=c":               `{"spec":{"engine":"mariadb","n":3,"parts":[{"size":"s"},{}],"tags":["c","b"]}}`,
		".spec.url:=http://x?a=b":         `{"spec":{"engine":"mariadb","n":3,"parts":[{"size":"s"},{}],"tags":["a","b"],"url":"http://x?a=b"}}`,
		".spec.engine.deep:mariadb=mysql": `{"spec":{"engine":"mariadb","n":3,"parts":[{"size":"s"},{}],"tags":["a","b"]}}`,
		".spec.parts:s=x":                 `{"spec":{"engine":"mariadb","n":3,"parts":[{"size":"s"},{}],"tags":["a","b"]}}`,
	} {
		m, err := ParseMapping(text)
		if err != nil {
			t.Error(err)
			continue
		}
		var obj map[string]any
		if err := json.Unmarshal([]byte(`{"spec":{"engine":"mariadb","n":3,"parts":[{"size":"s"},{}],"tags":["a","b"]}}`), &obj); err != nil {
			t.Fatal(err)
		}
		m.replaceIn(obj, m.path)
		if got, _ := json.Marshal(obj); string(got) != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	for _, text := range []string{"", ".", "spec.a:b=c", ".spec.a", ".spec.a:b", ".spec.a:b=", ".spec..a:b=c", ".metadata.name:a=b", ".spec.a:{=c"} {
		if m, err := ParseMapping(text); err == nil {
			t.Errorf("%q is taken for %+v", text, m)
		}
	}
}

func FuzzParseMapping(f *testing.F) {
	f.Add(".spec.a[*].b:x=y")
	f.Add(".[*][*]:=1")
	f.Fuzz(func(_ *testing.T, text string) {
		if m, err := ParseMapping(text); err == nil {
			m.replaceIn(map[string]any{"spec": map[string]any{"a": []any{map[string]any{"b": "x"}, "x"}}}, m.path)
		}
	})
}

// answers is an API server with the kind StorageVersionMigration, whose controller answers with a status.
func answers(t *testing.T, status string) (*run, *[]string) {
	t.Helper()
	var calls []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		calls = append(calls, r.Method)
		w.Header().Set("Content-Type", "application/json")
		switch {
		case !strings.HasPrefix(r.URL.Path, "/apis/storagemigration.k8s.io/v1beta1/storageversionmigrations"):
			w.WriteHeader(http.StatusNotFound)
		case r.Method == http.MethodPost && !bytes.Contains(body, []byte(`"resource":{"group":"g","resource":"things"}`)):
			t.Errorf("%s", body)
		default:
			fmt.Fprintf(w, `{"status":%s}`, status)
		}
	}))
	t.Cleanup(server.Close)
	m, err := New(&rest.Config{Host: server.URL}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	m.unanswered = 1
	crd := &apiextensionsv1.CustomResourceDefinition{}
	crd.Spec.Group, crd.Spec.Names.Plural = "g", "things"
	return &run{Migrator: m, crd: crd}, &calls
}

func TestTheServersOwnMigrationIsTakenAtItsWord(t *testing.T) {
	for name, c := range map[string]struct {
		status, note string
		byServer     bool
	}{
		"succeeded": {`{"resourceVersion":"1","conditions":[{"type":"Succeeded","status":"True"}]}`, "", true},
		"failed":    {`{"resourceVersion":"1","conditions":[{"type":"Failed","status":"True","message":"an object is bad"}]}`, "an object is bad", false},
		"no answer": {`{}`, "no controller answered", false},
	} {
		r, calls := answers(t, c.status)
		if err := r.letServerMigrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		if r.ByServer != c.byServer || !strings.Contains(strings.Join(r.Notes, ""), c.note) || (c.note == "") != (len(r.Notes) == 0) {
			t.Errorf("%s: %v %v", name, r.ByServer, r.Notes)
		}
		if last := (*calls)[len(*calls)-1]; last != http.MethodDelete {
			t.Errorf("%s: the request is left: %v", name, *calls)
		}
	}
}

// What is wrong with one object is told; what is wrong with the server ends the migration, or is tried again.
func TestErrorsOfOneObjectAndOfTheServer(t *testing.T) {
	resource := schema.GroupResource{Group: "g", Resource: "things"}
	for name, c := range map[string]struct {
		err        error
		gone, stop bool
	}{
		"deleted":       {apierrors.NewNotFound(resource, "x"), true, false},
		"invalid":       {apierrors.NewInvalid(schema.GroupKind{Kind: "Thing"}, "x", nil), false, false},
		"denied":        {apierrors.NewForbidden(resource, "x", io.EOF), false, false},
		"webhook fails": {apierrors.NewInternalError(io.EOF), false, false},
		"too many":      {apierrors.NewTooManyRequests("later", 1), false, true},
		"unauthorized":  {apierrors.NewUnauthorized("no"), false, true},
		"broken":        {io.ErrUnexpectedEOF, false, true},
	} {
		f, err := settleFate(fate{}, c.err)
		if f.gone != c.gone || (err != nil) != c.stop || (f.refused != "") != (!c.gone && !c.stop) {
			t.Errorf("%s: %+v, %v", name, f, err)
		}
	}
}

func TestA429IsWaitedFor(t *testing.T) {
	tries := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if tries++; tries < 3 {
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		fmt.Fprint(w, `{}`)
	}))
	defer server.Close()
	m, err := New(&rest.Config{Host: server.URL}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := send(t.Context(), m.rest.Get().AbsPath("/x"), nil); err != nil || tries != 3 {
		t.Errorf("%v after %d tries", err, tries)
	}
}

func TestWhichFieldsAnotherVersionLacks(t *testing.T) {
	const a, ab = "{type: object, properties: {a: {type: string}}}", "{type: object, properties: {a: {type: string}, b: {type: string}}}"
	below := func(s string) string { return "{type: object, properties: {l: {type: array, items: " + s + "}}}" }
	for _, c := range []struct {
		old, next string
		want      bool
	}{
		{a, ab, false},
		{ab, a, true},
		{ab, strings.Replace(a, "type", "x-kubernetes-preserve-unknown-fields: true, type", 1), false},
		{strings.Replace(a, "type", "x-kubernetes-preserve-unknown-fields: true, type", 1), a, true},
		{below(ab), below(a), true},
		{below(a), below(ab), false},
		{ab, "{type: object, additionalProperties: {type: string}}", false},
		{"{type: object, additionalProperties: " + ab + "}", "{type: object, additionalProperties: " + a + "}", true},
		{"{type: object, additionalProperties: {type: string}}", a, true},
	} {
		var old, next apiextensionsv1.JSONSchemaProps
		if err := errors.Join(yaml.Unmarshal([]byte(c.old), &old), yaml.Unmarshal([]byte(c.next), &next)); err != nil {
			t.Fatal(err)
		}
		if got := mayLose(&old, &next); got != c.want {
			t.Errorf("%s to %s: %t, want %t", c.old, c.next, got, c.want)
		}
	}
}

//go:build e2e

package cli

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	mathbig "math/big"
	"regexp"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/internal/cli/apply"
)

// TestE2EAnApplyBringsBackWhatReadsTheStoredObjects: the conversion webhook of a CRD is down, so its objects cannot be read. The change is
// undecided, the message names the way on, and that way leads on.
func TestE2EAnApplyBringsBackWhatReadsTheStoredObjects(t *testing.T) {
	w := newWorld(t)
	group := w.namespace + ".example.com"
	crd := func(name, v1, conversion string, fields ...string) string {
		properties := ""
		for _, f := range fields {
			properties += f + ": {type: string}, "
		}
		version := "\n  - {name: %s, served: true, storage: %s, schema: {openAPIV3Schema: {type: object, properties: {" + properties + "}}}}"
		versions := strings.NewReplacer("%s, served", "v1beta1, served", "storage: %s", "storage: "+map[bool]string{true: "false", false: "true"}[v1 != ""]).Replace(version)
		if v1 != "" {
			versions += strings.NewReplacer("%s, served", "v1, served", "storage: %s", "storage: true").Replace(version)
		}
		return w.file(name, "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: brokens."+group+"}\nspec:\n  group: "+group+
			"\n  scope: Namespaced\n  names: {kind: Broken, plural: brokens}\n"+conversion+"  versions:"+versions+"\n")
	}
	down := "  conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {service: {name: nowhere, namespace: default}}}}\n"
	object := w.file("object.yaml", "apiVersion: "+group+"/v1beta1\nkind: Broken\nmetadata: {name: b}\na: x\n")
	w.apply(ExitOK, "--app", "x", "-f", crd("first.yaml", "", "", "a"), "-f", object)
	w.apply(ExitOK, "--app", "x", "-f", crd("second.yaml", "v1", down, "a"), "--preflight", "")
	defer func() { // a kind that cannot be listed keeps every namespace of the cluster from being deleted
		if _, errs, err := w.Kubectl(t, "", "patch", "crd", "brokens."+group, "--type=json", "-p", `[{"op":"replace","path":"/spec/conversion","value":{"strategy":"None"}}]`); err != nil {
			t.Errorf("%v: %s", err, errs)
		}
	}()

	next := crd("next.yaml", "v1", down, "a", "b")
	out, errs := w.run(ExitFindings, "apply", "--app", "x", "-f", next)
	told := strings.Join(strings.Fields(out), " ")
	for _, want := range []string{"conversion webhook", "could not be judged", "--fail-mode open"} {
		if !strings.Contains(told, want) {
			t.Errorf("no %q in\n%s%s", want, out, errs)
		}
	}
	w.run(ExitFindings, "apply", "--app", "x", "-f", next, "--mode", "stored")
	if r := w.apply(ExitOK, "--app", "x", "-f", next, "--fail-mode", "open"); r.Outcome != apply.OutcomeApplied || !strings.Contains(string(r.Report), "stored-objects-unread") {
		t.Errorf("%+v", r)
	}
	if r := w.apply(ExitOK, "--app", "x", "-f", crd("more.yaml", "v1", down, "a", "b", "c"), "--mode", "warn"); r.Outcome != apply.OutcomeApplied {
		t.Errorf("%+v", r)
	}
}

// TestE2ETheOwnerOfWhatAManifestLeavesOutIsNamed: a CRD loses its conversion, but the CA in it belongs to an injector. The command in the
// message removes it.
func TestE2ETheOwnerOfWhatAManifestLeavesOutIsNamed(t *testing.T) {
	w := newWorld(t)
	const webhook = "  conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {service: {name: w, namespace: default}}}}\n"
	command := regexp.MustCompile(`remove it with: kubectl patch (\S+) (\S+) --type=json -p '(.*)'`)
	for name, next := range map[string]string{"left out": "", "none": "  conversion: {strategy: None}\n"} {
		group := strings.ReplaceAll(name, " ", "") + "." + w.namespace + ".example.com"
		crd := func(conversion string) string {
			return w.file("crd.yaml", fmt.Sprintf("apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: certs.%[1]s}\nspec:\n  group: %[1]s\n  scope: Namespaced\n"+
				"  names: {kind: Cert, plural: certs}\n%[2]s  versions:\n  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}\n", group, conversion))
		}
		w.apply(ExitOK, "--app", "x", "-f", crd(webhook))
		crds := w.dynamic.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
		inject := []byte(`[{"op":"add","path":"/spec/conversion/webhook/clientConfig/caBundle","value":"` + newCA(t) + `"}]`)
		if _, err := crds.Patch(t.Context(), "certs."+group, types.JSONPatchType, inject, metav1.PatchOptions{FieldManager: "injector"}); err != nil {
			t.Fatal(err)
		}
		r := w.apply(ExitFailed, "--app", "x", "-f", crd(next), "--force-conflicts")
		m := command.FindStringSubmatch(r.Error)
		if m == nil || !strings.Contains(r.Error, ".spec.conversion.webhook.clientConfig.caBundle belongs to injector") {
			t.Fatalf("%s: %s", name, r.Error)
		}
		if _, err := crds.Patch(t.Context(), m[2], types.JSONPatchType, []byte(m[3]), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		w.apply(ExitOK, "--app", "x", "-f", crd(next))
	}
}

// TestE2EAFieldThatAnApplyKeepsIsExplained: the API server refuses a field that is not in the manifest. The message says whose it is, and its
// command leads on.
func TestE2EAFieldThatAnApplyKeepsIsExplained(t *testing.T) {
	w := newWorld(t)
	group := w.namespace + ".example.com"
	defer func() { // nobody serves the group, and nobody may delete a namespace of a cluster that cannot be seen whole
		if _, errs, err := w.Kubectl(t, "", "delete", "apiservice", "v1."+group); err != nil {
			t.Errorf("%v: %s", err, errs)
		}
	}()
	inject := func(resource, name, patch string) {
		t.Helper()
		if _, errs, err := w.Kubectl(t, "", "-n", w.namespace, "patch", resource, name, "--field-manager=injector", "--type=json", "-p", patch); err != nil {
			t.Fatalf("%v: %s", err, errs)
		}
	}
	service := "apiVersion: apiregistration.k8s.io/v1\nkind: APIService\nmetadata: {name: v1." + group + "}\nspec: {group: " + group + ", version: v1, groupPriorityMinimum: 100, versionPriority: 10%s}\n"
	deployment := "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec:\n  replicas: 0\n  selector: {matchLabels: {a: b}}\n" +
		"  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}\n%s"
	command := regexp.MustCompile(`with: kubectl (.*) --type=json -p '([^']*)'`)
	for _, c := range []struct{ manifest, first, next, want string }{
		{service, ", service: {name: x, namespace: default}", "", ".spec.caBundle is not in the manifest, but belongs to injector"},
		{deployment, "", "  strategy: {type: Recreate}\n", ".spec.strategy.rollingUpdate is not in the manifest, but the API server has filled it in"},
	} {
		w.apply(ExitOK, "--app", "x", "--wait=false", "-f", w.file("first.yaml", fmt.Sprintf(c.manifest, c.first)))
		if c.next == "" {
			inject("apiservice", "v1."+group, `[{"op":"add","path":"/spec/caBundle","value":"`+newCA(t)+`"}]`)
		}
		next := w.file("next.yaml", fmt.Sprintf(c.manifest, c.next))
		r := w.apply(ExitFailed, "--app", "x", "--wait=false", "--force-conflicts", "-f", next)
		m := command.FindStringSubmatch(r.Error)
		if m == nil || !strings.Contains(r.Error, c.want) {
			t.Fatalf("no %q and a command in %s", c.want, r.Error)
		}
		if _, errs, err := w.Kubectl(t, "", append(strings.Fields(m[1]), "--type=json", "-p", m[2])...); err != nil {
			t.Fatalf("%s: %v: %s", m[0], err, errs)
		}
		w.apply(ExitOK, "--app", "x", "--wait=false", "--force-conflicts", "-f", next)
	}
}

// TestE2EACRDWhoseNamesWereTakenIsMended: a CRD that was never served has no objects, and what the API server said of its earlier names does not
// count.
func TestE2EACRDWhoseNamesWereTakenIsMended(t *testing.T) {
	w := newWorld(t)
	group := w.namespace + ".example.com"
	crd := func(plural, kind, short string) string {
		return w.file(plural+".yaml", fmt.Sprintf("apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: %[1]s.%[4]s}\nspec:\n  group: %[4]s\n  scope: Namespaced\n"+
			"  names: {kind: %[2]s, plural: %[1]s, shortNames: [%[3]s]}\n  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]\n", plural, kind, short, group))
	}
	w.apply(ExitOK, "--app", "x", "-f", crd("ones", "One", "sn"))
	if r := w.apply(ExitFailed, "--app", "y", "-f", crd("twos", "Two", "sn")); !strings.Contains(r.Error, `"sn" is already in use`) {
		t.Errorf("%s", r.Error)
	}
	object := w.file("two.yaml", "apiVersion: "+group+"/v1\nkind: Two\nmetadata: {name: t}\n")
	w.apply(ExitOK, "--app", "y", "-f", crd("twos", "Two", "st"), "-f", object)
}

// TestE2EItemsThatNobodyOwnsAreNamed: a CRD changes an atomic list to one by keys. An item that then leaves the manifest stays in the object.
func TestE2EItemsThatNobodyOwnsAreNamed(t *testing.T) {
	w := newWorld(t)
	group := w.namespace + ".example.com"
	const granularly = "x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [name], "
	crd := func(listType string) string {
		return w.file("crd.yaml", fmt.Sprintf("apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: listers.%[1]s}\nspec:\n  group: %[1]s\n  scope: Namespaced\n"+
			"  names: {kind: Lister, plural: listers}\n  versions:\n  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {ports: {type: array, %[2]s"+
			"items: {type: object, required: [name], properties: {name: {type: string}}}}}}}}\n", group, listType))
	}
	lister := func(ports string) string {
		return w.file("lister.yaml", "apiVersion: "+group+"/v1\nkind: Lister\nmetadata: {name: l}\nports: ["+ports+"]\n")
	}
	w.apply(ExitOK, "--app", "x", "-f", crd(""), "-f", lister("{name: a}, {name: b}"))
	granular := crd(granularly)
	w.apply(ExitOK, "--app", "x", "-f", granular, "-f", lister("{name: a}, {name: b}"), "--mode", "warn")
	args := []string{"--app", "x", "-f", granular, "-f", lister("{name: a}")}
	for _, command := range []string{"diff", "apply", "diff", "apply"} { // before the item is left over, and after it is
		if _, errs := w.run(ExitOK, command, args...); strings.Count(errs, `/l .ports[{"name":"b"}]`) != 1 {
			t.Errorf("%s: %s", command, errs)
		}
	}
	if _, errs := w.run(ExitOK, "apply", "--app", "x", "-f", granular, "-f", lister("{name: a}, {name: b}")); strings.Contains(errs, "nobody owns") {
		t.Errorf("the item is in the source again: %s", errs)
	}

	// The change of the list and the source without the item come at once: the dry run is by the old list, and the write by the new one.
	w = newWorld(t)
	group = w.namespace + ".example.com"
	w.apply(ExitOK, "--app", "x", "-f", crd(""), "-f", lister("{name: a}, {name: b}"))
	both := []string{"--app", "x", "-f", crd(granularly), "-f", lister("{name: a}")}
	if out, errs := w.run(ExitFindings, "diff", both...); !strings.Contains(out+errs, "compared by the CRD that is served now, which this source changes") {
		t.Errorf("diff: %s%s", out, errs)
	}
	if r := w.apply(ExitOK, append(both, "--mode", "warn")...); !slices.Equal(r.Unowned, []string{"Lister." + group + " " + w.namespace + `/l .ports[{"name":"b"}]`}) {
		t.Errorf("in the run that changes the list: %q", r.Unowned)
	}
	out, _ := w.run(ExitOK, "diff", append([]string{"-o", "json"}, both...)...)
	var d apply.DiffResult
	if err := json.Unmarshal([]byte(out), &d); err != nil || len(d.Unowned) != 1 || len(d.Differences) != 0 {
		t.Errorf("after it: %v, %q, %+v", err, d.Unowned, d.Differences)
	}
}

// newCA returns a certificate as a caBundle has it.
func newCA(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	cert := &x509.Certificate{SerialNumber: mathbig.NewInt(1), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

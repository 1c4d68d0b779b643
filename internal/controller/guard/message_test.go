package guard

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"sluice.dev/report"
)

func finding(rule, message string) report.Finding {
	return report.Finding{Rule: rule, Level: report.DataLost, Outcome: report.Violation, Severity: report.Fail, Version: "v1", Path: ".spec", Message: message}
}

func TestARefusalFitsHoweverMuchThereIsToSay(t *testing.T) {
	c := &change{crd: &apiextensionsv1.CustomResourceDefinition{}}
	c.crd.Name = "databases.example.sluice.dev"
	b := bypass{digest: strings.Repeat("0", 64)}
	nasty := strings.Repeat("\u202eé\x00\n\r日\xff", 5000)
	loud := finding("property-removed", nasty)
	loud.Path, loud.Reason = nasty, nasty
	loud.Witness = &report.Witness{Old: nasty, Object: nasty, Effect: nasty}
	loud.Objects = &report.Objects{Examples: []string{nasty}}
	var many []report.Finding
	for i := range 3000 {
		many = append(many, finding("property-removed", fmt.Sprintf("property %q is gone", fmt.Sprint(i))))
	}
	for name, failing := range map[string][]report.Finding{
		"one":            {finding("property-removed", "gone")},
		"thousands":      many,
		"a loud one":     {loud},
		"many loud ones": {loud, loud, loud, loud},
	} {
		t.Run(name, func(t *testing.T) {
			b := b
			b.problem = nasty
			text := refusalMessage(c, b, failing)
			if len(text) > maxMessage || !utf8.ValidString(text) || strings.ContainsAny(text, "\x00\r\u202e") {
				t.Errorf("%d bytes: %q", len(text), text)
			}
			wants := []string{countedFindings(failing), "\n- data-lost, property-removed, v1 ", "sluice check NEW.yaml", b.digest}
			if shown := strings.Count(text, "\n- "); shown < len(failing) {
				wants = append(wants, fmt.Sprintf("\nand %d more", len(failing)-shown))
			}
			for _, want := range wants {
				if !strings.Contains(text, want) {
					t.Errorf("no %q in: %s", want, text)
				}
			}
			if n := len(statusCauses(failing)); n != min(len(failing), maxCauses) {
				t.Errorf("%d causes", n)
			}
			told := admissionWarnings(failing)
			total := 0
			for _, line := range told {
				total += utf8.RuneCountInString(line)
				if utf8.RuneCountInString(line) > 256 || strings.ContainsAny(line, "\n\r\x00") {
					t.Errorf("warning %q", line)
				}
			}
			if total > 4096 || len(failing) > maxWarnings && !strings.Contains(told[len(told)-1], fmt.Sprintf("and %d more", len(failing)-maxWarnings)) {
				t.Errorf("%d characters of warnings: %q", total, told)
			}
		})
	}
}

func TestAFindingIsToldWithItsWitness(t *testing.T) {
	f := finding("property-removed", "property \"tier\" is gone")
	f.Reason = "it is pruned"
	f.Witness = &report.Witness{Old: "spec:\n  tier: <a>\n", Object: "spec: {tier: b}", Effect: "refused"}
	want := `- data-lost, property-removed, v1 .spec: property "tier" is gone
  why: it is pruned
  stored: {"spec":{"tier":"<a>"}}
  its update: {"spec":{"tier":"b"}}
  effect: refused`
	if diff := cmp.Diff(want, describeFinding(&f)); diff != "" {
		t.Error(diff)
	}
	f.Witness = &report.Witness{Object: "spec: {tier: b}", Reversed: true}
	if got := describeFinding(&f); !strings.Contains(got, "accepted from now on: {") {
		t.Error(got)
	}
}

func TestTheBundleIsWrittenOnceAndOnlyWhereItIsMissing(t *testing.T) {
	kube := fake.NewClientset()
	if err := TellConfiguration(t.Context(), kube, []byte("x")); err != nil {
		t.Errorf("without a configuration: %v", err)
	}
	configurations := kube.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	_, err := configurations.Create(t.Context(), &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: Configuration, ResourceVersion: "1"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{
			{Name: "a.example.com", ClientConfig: admissionregistrationv1.WebhookClientConfig{CABundle: []byte("other")}}, {Name: "b.example.com"},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := TellConfiguration(t.Context(), kube, []byte("bundle")); err != nil {
			t.Fatal(err)
		}
	}
	got, err := configurations.Get(t.Context(), Configuration, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range got.Webhooks {
		if string(h.ClientConfig.CABundle) != "bundle" {
			t.Errorf("%s has %q", h.Name, h.ClientConfig.CABundle)
		}
	}
	patches := 0
	for _, a := range kube.Actions() {
		if a.GetVerb() == "patch" {
			patches++
		}
	}
	if patches != 1 {
		t.Errorf("%d patches", patches)
	}
}

func TestObjectsInJSONAreCounted(t *testing.T) {
	for _, v := range []any{map[string]any{}, "{{", []any{map[string]any{`a"{`: `\`}, map[string]any{"b\\": map[string]any{}}}, nil} {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		want := 0
		var count func(any)
		count = func(v any) {
			switch v := v.(type) {
			case map[string]any:
				want++
				for _, x := range v {
					count(x)
				}
			case []any:
				for _, x := range v {
					count(x)
				}
			}
		}
		count(v)
		if got := objectsIn(text); got != want {
			t.Errorf("%s: %d, not %d", text, got, want)
		}
	}
}

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"sluice.dev/internal/controller/features"
)

const (
	// latencyCalls is how often each request is sent at each concurrency, in latencyRounds rounds: the load of a machine
	// changes within seconds, and all kinds are to have their share of it.
	latencyCalls  = 400
	latencyRounds = 50
	// latencyWarmUp is how often each round sends it before that.
	latencyWarmUp = 1
	// changesLive and changesBaked are how often settings are changed.
	changesLive, changesBaked = 60, 30
)

// latencyVariant is a kind with features, all of which but two are closed. Objects use those two: one in each of five tasks.
type latencyVariant struct {
	name, what string
	features   int
	mode       string
	drop, hook bool
	hand       bool // a policy that is written by hand, without Sluice, is in the place of features
}

var latencyVariants = []latencyVariant{
	{name: "none", what: "no feature"},
	{name: "ten", what: "10, validating policy, live", features: 10},
	{name: "tenbaked", what: "10, validating policy, baked", features: 10, mode: "Baked"},
	{name: "many", what: "200, validating policy, live", features: 200},
	{name: "five", what: "5, validating policy, live", features: 5},
	{name: "fivedrop", what: "5, mutating policy, live", features: 5, drop: true},
	{name: "fivehand", what: "5, a policy by hand", features: 5, hand: true},
	{name: "tenhand", what: "10, a policy by hand", features: 10, hand: true},
	{name: "manyhand", what: "200, a policy by hand", features: 200, hand: true},
	{name: "tenhook", what: "10, webhook", features: 10, hook: true},
	{name: "manyhook", what: "200, webhook", features: 200, hook: true},
}

func (v *latencyVariant) group() string { return v.name + ".bench.dev" }

// manifests are the kind, the component and its features.
func (v *latencyVariant) manifests() (kind, rest string) {
	var fields, items, list strings.Builder
	part := func(field string) string {
		if v.hook {
			// With strings of any length a pattern of this length could cost more than an expression may.
			return fmt.Sprintf("{group: %s, resource: things, field: %q, pattern: '^[a-z]+-[a-z]+-[a-z]+$|^x$'}", v.group(), field)
		}
		return fmt.Sprintf("{group: %s, resource: things, field: %q}", v.group(), field)
	}
	when := "Reject"
	if v.drop {
		when = "Drop"
	}
	for i := range max(v.features, 2) {
		path := fmt.Sprintf("spec.field%d", i)
		if i%10 == 0 {
			path = fmt.Sprintf("spec.tasks[*].field%d", i)
			fmt.Fprintf(&items, ", field%d: {type: string}", i)
		} else {
			fmt.Fprintf(&fields, ", field%d: {type: string}", i)
		}
		if i < v.features && v.hand {
			used := fmt.Sprintf("has(object.spec.field%d)", i)
			if i%10 == 0 {
				used = fmt.Sprintf("has(object.spec.tasks) && object.spec.tasks.exists(t, has(t.field%d))", i)
			}
			fmt.Fprintf(&list, "  - {message: Field%[1]d is off, expression: \"!(%[2]s) || has(params.data) && 'field%[1]d' in params.data && params.data['field%[1]d'] == 'true'\"}\n", i, used)
		} else if i < v.features {
			fmt.Fprintf(&list, "---\napiVersion: sluice.dev/v1alpha1\nkind: Feature\nmetadata: {name: %[1]s.field%[2]d}\nspec: {component: %[1]s, gate: Field%[2]d, whenDisabled: %[3]s, stages: [{stage: Alpha, release: v1.0.0}], parts: [%[4]s]}\n",
				v.name, i, when, part(path))
		}
	}
	kind = fmt.Sprintf(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.%[1]s}
spec:
  group: %[1]s
  names: {kind: Thing, plural: things, singular: thing, listKind: ThingList}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              x: {type: string}%[2]s
              tasks:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [name]
                items: {type: object, required: [name], properties: {name: {type: string}, image: {type: string}%[3]s}}
`, v.group(), strings.ReplaceAll(fields.String(), ", ", "\n              "), items.String())
	if v.hand {
		return kind, fmt.Sprintf(handPolicy, v.name, v.group(), list.String())
	}
	mode := v.mode
	if mode == "" {
		mode = "Live"
	}
	rest = fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %[1]s, namespace: bench}\ndata: {field0: 'true', field1: 'true'}\n"+
		"---\napiVersion: sluice.dev/v1alpha1\nkind: Component\nmetadata: {name: %[1]s}\nspec: {release: v1.5.0, mode: %[2]s, configMap: {namespace: bench, name: %[1]s}}\n%[3]s", v.name, mode, list.String())
	return kind, rest
}

// handPolicy is what somebody would write for the same gates: a validation for each, without a ratchet. %[3]s stands for them.
const handPolicy = `apiVersion: v1
kind: ConfigMap
metadata: {name: %[1]s, namespace: bench}
data: {field0: 'true', field1: 'true'}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: %[1]s}
spec:
  paramKind: {apiVersion: v1, kind: ConfigMap}
  matchConstraints: {resourceRules: [{apiGroups: [%[2]s], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [things]}]}
  validations:
%[3]s---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: %[1]s}
spec: {policyName: %[1]s, validationActions: [Deny], paramRef: {namespace: bench, name: %[1]s, parameterNotFoundAction: Deny}}
`

// object is one with five tasks, each of which uses what is open; with closed it uses something else besides.
func (v *latencyVariant) object(name string, closed bool) []byte {
	more := ""
	if closed {
		more = `,"field2":"x"`
	}
	var tasks []string
	for i := range 5 {
		tasks = append(tasks, fmt.Sprintf(`{"name":"task-%d","image":"example.com/image:v1","field0":"x"}`, i))
	}
	return fmt.Appendf(nil, `{"apiVersion":"%s/v1","kind":"Thing","metadata":{"name":%q,"namespace":"bench"},"spec":{"x":"y","field1":"x"%s,"tasks":[%s]}}`,
		v.group(), name, more, strings.Join(tasks, ","))
}

// featuresLatency measures what features add to requests on a real API server, and how long after a change settings are in force.
func featuresLatency(ctx context.Context, c *config) (err error) {
	options := []string{"--roles=" + features.Role + "," + features.WebhookRole}
	for i := range latencyVariants {
		options = append(options, "--feature-settings=bench/"+latencyVariants[i].name)
	}
	s, err := installRoles(ctx, c.sluice, []string{"--roles=" + features.Role})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := s.applyYAML(ctx, "apiVersion: v1\nkind: Namespace\nmetadata: {name: bench}\n"); err != nil {
		return err
	}
	if err := s.applyManifests(ctx, options); err != nil {
		return err
	}
	if _, err := s.start(ctx, features.Role, features.WebhookRole); err != nil {
		return err
	}
	for i := range latencyVariants {
		v := &latencyVariants[i]
		kind, rest := v.manifests()
		if err := errors.Join(s.applyYAML(ctx, kind), s.applyYAML(ctx, rest)); err != nil {
			return fmt.Errorf("%s: %w", v.name, err)
		}
	}
	for i := range latencyVariants {
		if err := s.variantReady(ctx, &latencyVariants[i]); err != nil {
			return err
		}
	}
	type cell struct {
		variant, concurrency int
		method               string
	}
	took := map[cell][]time.Duration{}
	for range latencyRounds {
		// In an order that changes, so that what one leaves behind is not always the same other's to bear.
		for _, i := range rand.Perm(len(latencyVariants)) { //nolint:gosec // an order, no secret
			for _, concurrency := range []int{1, 8} {
				for _, method := range []string{http.MethodPost, http.MethodPut} {
					d, err := s.latency(ctx, &latencyVariants[i], method, concurrency, latencyCalls/latencyRounds)
					if err != nil {
						return fmt.Errorf("%s: %w", latencyVariants[i].name, err)
					}
					at := cell{i, concurrency, method}
					took[at] = append(took[at], d...)
				}
			}
		}
	}
	rows := [][]string{{"features", "", "create p50", "p99", "added p50", "update p50", "p99", "added p50"}}
	for _, concurrency := range []int{1, 8} {
		for i := range latencyVariants {
			row := []string{latencyVariants[i].what, fmt.Sprintf("%d at once", concurrency)}
			for _, method := range []string{http.MethodPost, http.MethodPut} {
				d, base := took[cell{i, concurrency, method}], took[cell{0, concurrency, method}]
				slices.Sort(d)
				row = append(row, millis(quantile(d, 0.5)), millis(quantile(d, 0.99)), millis(median(d)-median(base)))
			}
			rows = append(rows, row)
		}
	}
	c.table(rows...)
	fmt.Fprintf(c.out, "load %s\n\n", loadAverage())
	rows = [][]string{{"a change of settings is in force after", "p50", "p99", "worst", "changes"}}
	for _, w := range []struct {
		name    string
		changes int
	}{{"ten", changesLive}, {"many", changesLive}, {"tenbaked", changesBaked}, {"tenhook", changesLive}} {
		i := slices.IndexFunc(latencyVariants, func(v latencyVariant) bool { return v.name == w.name })
		d, err := s.inForce(ctx, &latencyVariants[i], w.changes)
		if err != nil {
			return err
		}
		rows = append(rows, []string{latencyVariants[i].what, millis(quantile(d, 0.5)), millis(quantile(d, 0.99)), millis(d[len(d)-1]), fmt.Sprint(len(d))})
	}
	c.table(rows...)
	return nil
}

// applyYAML applies the objects of a stream.
func (s *system) applyYAML(ctx context.Context, text string) error {
	for doc := range strings.SplitSeq(text, "---\n") {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(doc), &u.Object); err != nil {
			return fmt.Errorf("%w in %s", err, doc)
		}
		if u.Object == nil {
			continue
		}
		if err := s.objects.ApplyObject(ctx, u, false); err != nil {
			return fmt.Errorf("%s %s: %w", u.GetKind(), u.GetName(), err)
		}
	}
	return nil
}

func (s *system) things(v *latencyVariant) string {
	return s.cluster.Server + "/apis/" + v.group() + "/v1/namespaces/bench/things"
}

// try creates an object without keeping it.
func (s *system) try(ctx context.Context, v *latencyVariant, closed bool) (int, string, error) {
	return s.call(ctx, http.MethodPost, s.things(v)+"?dryRun=All", v.object("try", closed))
}

// variantReady waits until a variant is enforced, and stores the object that is updated.
func (s *system) variantReady(ctx context.Context, v *latencyVariant) error {
	want := http.StatusUnprocessableEntity
	if v.features == 0 || v.drop {
		want = http.StatusCreated
	}
	err := until(ctx, v.name+" to be enforced", func() error {
		code, text, err := s.try(ctx, v, v.features > 0)
		if err == nil && code != want || v.drop && strings.Contains(text, `"field2":"x"`) {
			err = fmt.Errorf("%d %.300s", code, text)
		}
		return err
	})
	if err != nil {
		return err
	}
	return until(ctx, "an object of "+v.name, func() error {
		code, text, err := s.call(ctx, http.MethodPost, s.things(v), v.object("stored", false))
		if err == nil && code != http.StatusCreated && code != http.StatusConflict {
			err = fmt.Errorf("%d %.300s", code, text)
		}
		return err
	})
}

// latency sends requests, some at once, that change nothing in store.
func (s *system) latency(ctx context.Context, v *latencyVariant, method string, concurrency, calls int) ([]time.Duration, error) {
	url, body, want := s.things(v), v.object("try", false), http.StatusCreated
	if method == http.MethodPut {
		// An update of a custom resource names the version that it changes.
		url, want = url+"/stored", http.StatusOK
		code, stored, err := fetch(ctx, s.admin, url)
		if err != nil || code != http.StatusOK {
			return nil, fmt.Errorf("reading what is updated: %d (%w)", code, err)
		}
		body = stored
	}
	url += "?dryRun=All"
	var mu sync.Mutex
	var out []time.Duration
	var errs []error
	var wg sync.WaitGroup
	for range concurrency {
		wg.Go(func() {
			for i := range latencyWarmUp + calls/concurrency {
				// An update that changes nothing would be let through by the policies without a look at its parts.
				sent := bytes.Replace(body, []byte(`"x":"y"`), fmt.Appendf(nil, `"x":"%d"`, i), 1)
				start := time.Now()
				code, text, err := s.call(ctx, method, url, sent)
				d := time.Since(start)
				if err == nil && code != want {
					err = fmt.Errorf("%s: %d %.300s", method, code, text)
				}
				mu.Lock()
				if err != nil {
					errs = append(errs, err)
				} else if i >= latencyWarmUp {
					out = append(out, d)
				}
				mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	return out, errors.Join(errs...)
}

// inForce opens and closes a feature and returns how long after each change it was so, sorted.
func (s *system) inForce(ctx context.Context, v *latencyVariant, changes int) ([]time.Duration, error) {
	var out []time.Duration
	for i := range changes {
		open := i%2 == 0
		patch := fmt.Sprintf(`{"data":{"field2":"%t"}}`, open)
		start := time.Now()
		if _, err := s.kube.CoreV1().ConfigMaps("bench").Patch(ctx, v.name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			return nil, err
		}
		for {
			code, text, err := s.try(ctx, v, true)
			if err != nil {
				return nil, err
			}
			if open && code == http.StatusCreated || !open && code == http.StatusUnprocessableEntity {
				out = append(out, time.Since(start))
				break
			}
			if time.Since(start) > patience {
				return nil, fmt.Errorf("%s: a change is not in force: %d %.300s", v.name, code, text)
			}
		}
	}
	slices.Sort(out)
	return out, nil
}

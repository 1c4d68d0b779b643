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
	// latencyCalls is the number of calls of each request at each concurrency in a round. The load of a machine changes within
	// seconds, and the rounds spread it over all kinds of requests. There are latencyRounds rounds, or fewer if they take longer
	// than latencyTime: after the first round it stops there, and tells what it has.
	latencyCalls  = 8
	latencyRounds = 12
	latencyTime   = 2 * time.Minute
	// latencyWarmUp is the number of calls before each round.
	latencyWarmUp = 1
	// changesLive and changesBaked are how often settings are changed, or less often if it takes longer than changesTime.
	changesLive, changesBaked = 40, 20
	changesTime               = 30 * time.Second
)

// latencyVariant is a kind with features, all of which but two are closed.
type latencyVariant struct {
	name, what string
	features   int
	mode       string
	drop, hook bool
	hand       bool // a policy written by hand, without Sluice, replaces the features
}

var latencyVariants = []latencyVariant{
	{name: "none", what: "none"},
	{name: "five", what: "5, refused", features: 5},
	{name: "fivehand", what: "5, refused, by hand", features: 5, hand: true},
	{name: "ten", what: "10, refused", features: 10},
	{name: "tenhand", what: "10, refused, by hand", features: 10, hand: true},
	{name: "many", what: "200, refused", features: 200},
	{name: "manyhand", what: "200, refused, by hand", features: 200, hand: true},
	{name: "fivedrop", what: "5, dropped", features: 5, drop: true},
	{name: "fivedrophand", what: "5, dropped, by hand", features: 5, drop: true, hand: true},
	{name: "manydrop", what: "200, dropped", features: 200, drop: true},
	{name: "manydrophand", what: "200, dropped, by hand", features: 200, drop: true, hand: true},
	{name: "tenbaked", what: "10, refused, baked", features: 10, mode: "Baked"},
	{name: "tenhook", what: "10, refused, webhook", features: 10, hook: true},
}

// latencyRequest is one kind of request. Objects have five tasks.
type latencyRequest struct {
	what         string
	open, closed bool // whether the object uses two parts that are open, and one that is closed
	method       string
}

var latencyRequests = []latencyRequest{
	{what: "uses none", method: http.MethodPost},
	{what: "uses open ones", open: true, method: http.MethodPost},
	{what: "uses a closed one", open: true, closed: true, method: http.MethodPost},
	{what: "update, a closed one is stored", open: true, closed: true, method: http.MethodPut},
}

// want is the expected result of a request.
func (v *latencyVariant) want(r *latencyRequest) int {
	switch {
	case r.method == http.MethodPut:
		return http.StatusOK
	case r.closed && v.features > 0 && !v.drop:
		return http.StatusUnprocessableEntity
	}
	return http.StatusCreated
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
	for i := range max(v.features, 3) {
		path := fmt.Sprintf("spec.field%d", i)
		if i%10 == 0 {
			path = fmt.Sprintf("spec.tasks[*].field%d", i)
			fmt.Fprintf(&items, ", field%d: {type: string}", i)
		} else {
			fmt.Fprintf(&fields, ", field%d: {type: string}", i)
		}
		switch {
		case i >= v.features:
		case v.hand && v.drop:
			list.WriteString(handDrop(i))
		case v.hand:
			list.WriteString(handCheck(i))
		default:
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
	switch {
	case v.hand && v.drop:
		return kind, fmt.Sprintf(handDrops, v.name, v.group(), strings.TrimSuffix(list.String(), " +\n"))
	case v.hand:
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

// handUses are expressions as people write them: whether an object uses the part of a gate, whether the stored one does, and
// whether the gate is open.
func handUses(i int) (used, stored, open string) {
	used, stored = fmt.Sprintf("has(object.spec.field%d)", i), fmt.Sprintf("oldObject != null && has(oldObject.spec.field%d)", i)
	if i%10 == 0 {
		used = fmt.Sprintf("has(object.spec.tasks) && object.spec.tasks.exists(t, has(t.field%d))", i)
		stored = fmt.Sprintf("oldObject != null && has(oldObject.spec.tasks) && oldObject.spec.tasks.exists(t, has(t.field%d))", i)
	}
	return used, stored, fmt.Sprintf("has(params.data) && 'field%[1]d' in params.data && params.data['field%[1]d'] == 'true'", i)
}

// handCheck is a validation of one gate.
func handCheck(i int) string {
	used, stored, open := handUses(i)
	return fmt.Sprintf("  - {message: Field%d is off, expression: \"!(%s) || %s || %s\"}\n", i, used, open, stored)
}

// handDrop removes one part.
func handDrop(i int) string {
	used, stored, open := handUses(i)
	remove := fmt.Sprintf("[JSONPatch{op: 'remove', path: '/spec/field%d'}]", i)
	if i%10 == 0 {
		remove = fmt.Sprintf("lists.range(object.spec.tasks.size()).filter(i, has(object.spec.tasks[i].field%[1]d)).map(i, JSONPatch{op: 'remove', path: '/spec/tasks/' + string(i) + '/field%[1]d'})", i)
	}
	return fmt.Sprintf("        (%s && !(%s) && !(%s) ? %s : []) +\n", used, open, stored, remove)
}

// handPolicy is a policy as an engineer would write it for the same gates: a validation for each, with the settings as parameter
// and a ratchet by object. %[3]s stands for the validations.
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

// handDrops is the same for dropped parts: one patch, and no warning.
const handDrops = `apiVersion: v1
kind: ConfigMap
metadata: {name: %[1]s, namespace: bench}
data: {field0: 'true', field1: 'true'}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: %[1]s}
spec:
  reinvocationPolicy: Never
  paramKind: {apiVersion: v1, kind: ConfigMap}
  matchConstraints: {resourceRules: [{apiGroups: [%[2]s], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [things]}]}
  mutations:
  - patchType: JSONPatch
    jsonPatch:
      expression: >-
%[3]s
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: %[1]s}
spec: {policyName: %[1]s, paramRef: {namespace: bench, name: %[1]s, parameterNotFoundAction: Deny}}
`

// object is one with five tasks, each of which uses what is open, if it is to; with closed it uses something else besides.
func (v *latencyVariant) object(name string, open, closed bool) []byte {
	more, task := "", ""
	if open {
		more, task = `,"field1":"x"`, `,"field0":"x"`
	}
	if closed {
		more += `,"field2":"x"`
	}
	var tasks []string
	for i := range 5 {
		tasks = append(tasks, fmt.Sprintf(`{"name":"task-%d","image":"example.com/image:v1"%s}`, i, task))
	}
	return fmt.Appendf(nil, `{"apiVersion":"%s/v1","kind":"Thing","metadata":{"name":%q,"namespace":"bench"},"spec":{"x":"y"%s,"tasks":[%s]}}`,
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
		if err := s.applyYAML(ctx, kind); err != nil {
			return fmt.Errorf("%s: %w", v.name, err)
		}
		if err := s.store(ctx, v); err != nil { // while nothing is closed
			return err
		}
		if err := s.applyYAML(ctx, rest); err != nil {
			return fmt.Errorf("%s: %w", v.name, err)
		}
	}
	for i := range latencyVariants {
		if err := s.variantReady(ctx, &latencyVariants[i]); err != nil {
			return err
		}
	}
	type cell struct{ variant, concurrency, request int }
	took := map[cell][]time.Duration{}
	start := time.Now()
	over := func(rounds int) bool { return rounds > 0 && time.Since(start) > latencyTime }
	for rounds := 0; rounds < latencyRounds && !over(rounds); rounds++ {
		// The order changes, so that the effects of one kind do not always burden the same other kind.
		for _, i := range rand.Perm(len(latencyVariants)) { //nolint:gosec // an order, no secret
			if over(rounds) {
				break
			}
			for _, concurrency := range []int{1, 8} {
				for j := range latencyRequests {
					d, err := s.latency(ctx, &latencyVariants[i], &latencyRequests[j], concurrency, latencyCalls)
					if err != nil {
						return fmt.Errorf("%s: %w", latencyVariants[i].name, err)
					}
					at := cell{i, concurrency, j}
					took[at] = append(took[at], d...)
				}
			}
		}
	}
	for _, concurrency := range []int{1, 8} {
		header := []string{fmt.Sprintf("gates, %d at once", concurrency)}
		for _, r := range latencyRequests {
			header = append(header, r.what+": p50", "added")
		}
		rows := [][]string{header}
		for i := range latencyVariants {
			row := []string{latencyVariants[i].what}
			for j := range latencyRequests {
				d, base := took[cell{i, concurrency, j}], took[cell{0, concurrency, j}]
				row = append(row, millis(median(d)), millis(median(d)-median(base)))
			}
			rows = append(rows, row)
		}
		c.table(rows...)
	}
	fewest, most := len(took[cell{0, 1, 0}]), 0
	for _, d := range took {
		fewest, most = min(fewest, len(d)), max(most, len(d))
	}
	fmt.Fprintf(c.out, "each figure is of %d to %d requests; load %s\n\n", fewest, most, loadAverage())
	rows := [][]string{{"a change of settings is in force after", "p50", "p99", "worst", "changes"}}
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
	return s.call(ctx, http.MethodPost, s.things(v)+"?dryRun=All", v.object("try", true, closed))
}

// store stores the object that is updated.
func (s *system) store(ctx context.Context, v *latencyVariant) error {
	return until(ctx, "an object of "+v.name, func() error {
		code, text, err := s.call(ctx, http.MethodPost, s.things(v), v.object("stored", true, true))
		if err == nil && code != http.StatusCreated && code != http.StatusConflict {
			err = fmt.Errorf("%d %.300s", code, text)
		}
		return err
	})
}

// variantReady waits until a variant is enforced.
func (s *system) variantReady(ctx context.Context, v *latencyVariant) error {
	want := v.want(&latencyRequest{closed: true, method: http.MethodPost})
	return untilAfter(ctx, 5*patience, v.name+" to be enforced", func() error {
		code, text, err := s.try(ctx, v, true)
		if err == nil && code != want || v.drop && strings.Contains(text, `"field2":"x"`) {
			err = fmt.Errorf("%d %.300s", code, text)
		}
		return err
	})
}

// latency sends requests, some at once, that change nothing in store.
func (s *system) latency(ctx context.Context, v *latencyVariant, r *latencyRequest, concurrency, calls int) ([]time.Duration, error) {
	url, body, want := s.things(v), v.object("try", r.open, r.closed), v.want(r)
	if r.method == http.MethodPut {
		// An update of a custom resource names the version that it changes.
		url += "/stored"
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
				code, text, err := s.call(ctx, r.method, url, sent)
				d := time.Since(start)
				if err == nil && code != want {
					err = fmt.Errorf("%s: %d %.300s", r.what, code, text)
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

// inForce opens and closes a feature, for changesTime at most, and returns how long after each change it was so, sorted.
func (s *system) inForce(ctx context.Context, v *latencyVariant, changes int) ([]time.Duration, error) {
	var out []time.Duration
	began := time.Now()
	for i := range changes {
		if i >= 2 && time.Since(began) > changesTime {
			break
		}
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

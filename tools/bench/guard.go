package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"sluice.dev/internal/controller/guard"
	"sluice.dev/tools/clustertest"
)

const (
	// guardRuns is the number of writes of each kind.
	guardRuns = 7
	// idleShare is the share of a processor that an API server takes that has nothing to do; idlePatience bounds the wait for that.
	idleShare, idlePatience = 0.5, time.Minute
)

// guardAtOnce are the numbers of updates that are sent at the same time.
var guardAtOnce = []int{8, 50}

// guardSizes are the sizes of CRDs in bytes.
var guardSizes = []int{10 << 10, 100 << 10, 1 << 20}

// measureGuard measures writes of CRDs with the guard, and then without it.
func measureGuard(ctx context.Context, b bench) (err error) {
	s, err := install(ctx, b, []string{"--roles=" + guard.Role}, "")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	roles, err := s.run(ctx, guard.Role)
	if err != nil {
		return err
	}
	client, err := apiextensions.NewForConfig(s.config)
	if err != nil {
		return err
	}
	w := crdWrites{system: s, client: client}
	var names []string
	for i, size := range guardSizes {
		name, err := w.createSized(ctx, fmt.Sprintf("size%d", i), size)
		if err != nil {
			return err
		}
		names = append(names, name)
	}
	if err := w.untilUnsafe(ctx, names[0], false); err != nil {
		return err
	}
	with, err := w.measureAll(ctx, names)
	if err != nil {
		return err
	}
	big := names[len(names)-1]
	var load [][]loadResult
	for _, n := range guardAtOnce {
		load = append(load, []loadResult{w.updateAtOnce(ctx, big, n)})
		w.untilIdle(ctx)
	}
	peak := memoryOf(roles[0].PID(), "VmHWM")
	if err := s.kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(ctx, guard.Configuration, metav1.DeleteOptions{}); err != nil {
		return err
	}
	if err := w.untilUnsafe(ctx, names[0], true); err != nil {
		return err
	}
	without, err := w.measureAll(ctx, names)
	if err != nil {
		return err
	}
	for i, n := range guardAtOnce {
		load[i] = append(load[i], w.updateAtOnce(ctx, big, n))
		w.untilIdle(ctx)
	}
	rows := [][]string{{"CRD", "write", "with the guard", "without", "CPU of all servers, with", "without"}}
	for i, size := range guardSizes {
		for j, kind := range writeKinds {
			a, b := with[i][j], without[i][j]
			rows = append(rows, []string{fmt.Sprintf("%d KiB", size>>10), kind.name, millis(a.wall), millis(b.wall), millis(a.cpu), millis(b.cpu)})
		}
	}
	printTable(rows...)
	fmt.Println()
	rows = [][]string{{"safe additions at once to the largest", "guard", "accepted", "refused", "out of time", "until the last"}}
	for i, n := range guardAtOnce {
		for j, title := range []string{"with", "without"} {
			rows = append(rows, append([]string{fmt.Sprint(n), title}, load[i][j].cells()...))
		}
	}
	printTable(rows...)
	fmt.Printf("\nThe guard took %s at most.\n", mebibytes(peak))
	return nil
}

type writeCost struct{ wall, cpu time.Duration }

// crdWrites writes CRDs to a cluster.
type crdWrites struct {
	*system

	client *apiextensions.Clientset
}

// writeKinds are writes of one CRD; i makes each of them a change.
var writeKinds = []struct {
	name string
	// patch is a merge patch of the subresource.
	patch, subresource string
}{
	{"label", `{"metadata":{"labels":{"n":"%d"}}}`, ""},
	{"status", `{"status":{"conditions":[{"type":"Bench","status":"True","reason":"N%d","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`, "status"},
	{"safe addition", "", ""},
}

// createSized creates a CRD of about the size, and returns its name.
func (w crdWrites) createSized(ctx context.Context, kind string, size int) (string, error) {
	var crd apiextensionsv1.CustomResourceDefinition
	text := strings.NewReplacer("engine", kind, "Engine", strings.ToUpper(kind[:1])+kind[1:]).Replace(string(bigCRD(size*5/4, 253)))
	if err := yaml.UnmarshalStrict([]byte(text), &crd); err != nil {
		return "", err
	}
	_, err := w.client.ApiextensionsV1().CustomResourceDefinitions().Create(ctx, &crd, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return crd.Name, clustertest.Until(ctx, patience, crd.Name+" to be established", func(ctx context.Context) error {
		live, err := w.client.ApiextensionsV1().CustomResourceDefinitions().Get(ctx, crd.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if !apihelpers.IsCRDConditionTrue(live, apiextensionsv1.Established) {
			return errors.New("it is not")
		}
		return nil
	})
}

// untilUnsafe waits until an unsafe change passes, or does not.
func (w crdWrites) untilUnsafe(ctx context.Context, name string, passes bool) error {
	return clustertest.Until(ctx, patience, "the guard", func(ctx context.Context) error {
		_, err := w.client.ApiextensionsV1().CustomResourceDefinitions().Patch(ctx, name, types.JSONPatchType,
			[]byte(`[{"op":"replace","path":"/spec/versions/0/served","value":false}]`), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		if (err == nil) != passes {
			return fmt.Errorf("an unsafe change: %w", err)
		}
		return nil
	})
}

// safeAddition is a JSON patch that adds an optional field.
func safeAddition(i int) []byte {
	return fmt.Appendf(nil, `[{"op":"add","path":"/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/added%d","value":{"type":"string"}}]`, i)
}

// measureAll measures writes of the CRDs, one after the other.
func (w crdWrites) measureAll(ctx context.Context, names []string) (out [][]writeCost, err error) {
	for _, name := range names {
		w.untilIdle(ctx)
		row, err := w.measureWrites(ctx, name)
		if err != nil {
			return nil, err
		}
		out = append(out, row)
	}
	return out, nil
}

// measureWrites measures each kind of write of one CRD: the median.
func (w crdWrites) measureWrites(ctx context.Context, name string) (out []writeCost, err error) {
	for _, kind := range writeKinds {
		var wall []time.Duration
		servers := w.serversCPU()
		for i := range guardRuns {
			patch, patchType, sub := fmt.Appendf(nil, kind.patch, i), types.MergePatchType, []string{}
			if kind.subresource != "" {
				sub = append(sub, kind.subresource)
			}
			if kind.patch == "" {
				patch, patchType = safeAddition(i), types.JSONPatchType
			}
			start := time.Now()
			_, err := w.client.ApiextensionsV1().CustomResourceDefinitions().Patch(ctx, name, patchType, patch, metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, sub...)
			if err != nil && !apierrors.IsTimeout(err) { // on a machine with much else to do the time is the figure
				return nil, err
			}
			wall = append(wall, time.Since(start))
		}
		out = append(out, writeCost{quantile(wall, 0.5), (w.serversCPU() - servers) / guardRuns})
	}
	return out, nil
}

// serversCPU is the processor time that the API server, etcd and the roles have taken.
func (w crdWrites) serversCPU() time.Duration {
	total := cpuOfTree(w.cluster.PID())
	for _, p := range w.node.Processes() {
		total += cpuOfTree(p.PID())
	}
	return total
}

// untilIdle waits until the API server has ended what nobody waits for any more.
func (w crdWrites) untilIdle(ctx context.Context) {
	_ = clustertest.Until(ctx, idlePatience, "the API server to be idle", func(ctx context.Context) error {
		const look = time.Second
		before := w.serversCPU()
		select {
		case <-ctx.Done():
		case <-time.After(look):
		}
		if (w.serversCPU() - before).Seconds() > idleShare*look.Seconds() {
			return errors.New("it works")
		}
		return nil
	}) // the figures after that are worse where it is not
}

type loadResult struct {
	accepted, refused, late int
	last                    time.Duration
}

func (l loadResult) cells() []string {
	return []string{fmt.Sprint(l.accepted), fmt.Sprint(l.refused), fmt.Sprint(l.late), fmt.Sprintf("%.1f s", l.last.Seconds())}
}

// updateAtOnce tries n safe additions at the same time.
func (w crdWrites) updateAtOnce(ctx context.Context, name string, n int) (out loadResult) {
	var wg sync.WaitGroup
	var lock sync.Mutex
	start := time.Now()
	for i := range n {
		wg.Go(func() {
			_, err := w.client.ApiextensionsV1().CustomResourceDefinitions().Patch(ctx, name, types.JSONPatchType, safeAddition(i), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
			lock.Lock()
			defer lock.Unlock()
			switch {
			case err == nil:
				out.accepted++
			case apierrors.IsTimeout(err):
				out.late++
			default:
				out.refused++
				fmt.Printf("refused: %.300s\n", err)
			}
			out.last = max(out.last, time.Since(start))
		})
	}
	wg.Wait()
	return out
}

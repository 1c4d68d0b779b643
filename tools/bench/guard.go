package main

// What does the guard cost those who write CRDs? Each write of a CRD waits for its webhook, so the same writes
// are measured with it and without.

import (
	"context"
	"errors"
	"fmt"
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

// etcd takes requests of up to 1.5 MiB by default, so larger CRDs are rare.
const (
	// guardRuns is the number of writes of each kind, guardAtOnce that of updates that are sent at the same time.
	guardRuns, guardAtOnce = 7, 50
	// guardSize is the size of the CRD in bytes.
	guardSize = 1 << 20
	// idleShare is the share of a processor that an API server takes that has nothing to do; idlePatience bounds the wait for that.
	idleShare, idlePatience = 0.5, time.Minute
)

// measureGuard measures writes of a large CRD with the guard, and then without it.
// The same API server is measured first with the guard and then without it, so that both have the same CRD in their
// caches.
func measureGuard(ctx context.Context, b bench) (err error) {
	s, err := install(ctx, b, []string{"--roles=" + guard.Role}, "")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if _, err := s.run(ctx, guard.Role); err != nil {
		return err
	}
	client, err := apiextensions.NewForConfig(s.config)
	if err != nil {
		return err
	}
	w := crdWrites{system: s, client: client}
	if err := w.createLarge(ctx); err != nil {
		return err
	}
	rows := [][]string{{"write of a CRD of 1 MiB", "guard", "time", "CPU of all servers"}}
	load := [][]string{{"safe additions at once", "guard", "accepted", "refused", "out of time", "until the last"}}
	// Without the configuration of the webhook the API server asks nobody.
	for _, title := range []string{"with", "without"} {
		if title == "without" {
			if err := s.kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(ctx, guard.Configuration, metav1.DeleteOptions{}); err != nil {
				return err
			}
		}
		// Admission follows its configuration by a watch, so a change of it takes a moment.
		if err := w.untilUnsafe(ctx, title == "without"); err != nil {
			return err
		}
		w.untilIdle(ctx)
		for _, kind := range writeKinds {
			wall, cpu, err := w.measureWrites(ctx, kind.patchType, kind.patch)
			if err != nil {
				return err
			}
			rows = append(rows, []string{kind.name, title, millis(wall), millis(cpu)})
		}
		load = append(load, append([]string{fmt.Sprint(guardAtOnce), title}, w.updateAtOnce(ctx).cells()...))
		w.untilIdle(ctx)
	}
	printTable(rows...)
	fmt.Println()
	printTable(load...)
	return nil
}

// crdWrites writes a CRD of a cluster.
type crdWrites struct {
	*system

	client *apiextensions.Clientset
}

// largeCRD is the name of that CRD.
const largeCRD = "engines.bench.example.com"

// writeKinds are writes of the CRD; the number in a patch makes each of them a change. An addition is one of an optional field.
var writeKinds = []struct {
	name      string
	patchType types.PatchType
	patch     string
}{
	{"label", types.MergePatchType, `{"metadata":{"labels":{"n":"%d"}}}`},
	{"safe addition", types.JSONPatchType, safeAddition},
}

const safeAddition = `[{"op":"add","path":"/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/added%d","value":{"type":"string"}}]`

// createLarge creates the CRD.
// The CRD is a quarter larger as YAML than as JSON, which is what the API server stores.
func (w crdWrites) createLarge(ctx context.Context) error {
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(bigCRD(guardSize*5/4, 253), &crd); err != nil {
		return err
	}
	if _, err := w.client.ApiextensionsV1().CustomResourceDefinitions().Create(ctx, &crd, metav1.CreateOptions{}); err != nil {
		return err
	}
	return clustertest.Until(ctx, patience, crd.Name+" to be established", func(ctx context.Context) error {
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

// tryPatch tries a change without keeping it.
// Admission runs for a dry run as for any other request, and nothing piles up in etcd.
func (w crdWrites) tryPatch(ctx context.Context, kind types.PatchType, patch string) error {
	_, err := w.client.ApiextensionsV1().CustomResourceDefinitions().Patch(ctx, largeCRD, kind, []byte(patch), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

// untilUnsafe waits until an unsafe change passes, or does not.
// To stop serving the only version is unsafe, and cheap to compare.
func (w crdWrites) untilUnsafe(ctx context.Context, passes bool) error {
	return clustertest.Until(ctx, patience, "the guard", func(ctx context.Context) error {
		err := w.tryPatch(ctx, types.JSONPatchType, `[{"op":"replace","path":"/spec/versions/0/served","value":false}]`)
		if (err == nil) != passes {
			return fmt.Errorf("an unsafe change: %w", err)
		}
		return nil
	})
}

// measureWrites measures a kind of write: the median of the times, and the mean of the processor times.
// The processor time of all servers is taken around all runs, because that of one write is below what the system
// counts.
func (w crdWrites) measureWrites(ctx context.Context, kind types.PatchType, patch string) (wall, cpu time.Duration, err error) {
	var walls []time.Duration
	servers := w.serversCPU()
	for i := range guardRuns {
		start := time.Now()
		if err := w.tryPatch(ctx, kind, fmt.Sprintf(patch, i)); err != nil && !apierrors.IsTimeout(err) { // on a machine with much else to do the time is the figure
			return 0, 0, err
		}
		walls = append(walls, time.Since(start))
	}
	return quantile(walls, 0.5), (w.serversCPU() - servers) / guardRuns, nil
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
// After a request has timed out, its work goes on in the servers. It would count for the next measurement.
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

// loadResult counts the answers to updates at once: accepted, refused, and those that came too late for the client.
// last is the time until the last of them.
type loadResult struct {
	accepted, refused, late int
	last                    time.Duration
}

func (l loadResult) cells() []string {
	return []string{fmt.Sprint(l.accepted), fmt.Sprint(l.refused), fmt.Sprint(l.late), fmt.Sprintf("%.1f s", l.last.Seconds())}
}

// updateAtOnce tries safe additions at the same time.
// All of them are in flight together, which is what a careless loop of a client does.
func (w crdWrites) updateAtOnce(ctx context.Context) (out loadResult) {
	var wg sync.WaitGroup
	var lock sync.Mutex
	start := time.Now()
	for i := range guardAtOnce {
		wg.Go(func() {
			err := w.tryPatch(ctx, types.JSONPatchType, fmt.Sprintf(safeAddition, i))
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

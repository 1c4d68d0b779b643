package main

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

const (
	// deliveredCRDs is the number of CRDs of the source, changedCRDs the number of those that change if not all do.
	deliveredCRDs = 200
	changedCRDs   = 5
	// deliveryPatience is more than an API server needs for so many CRDs on a machine that does other things too.
	deliveryPatience = 10 * time.Minute
	// deliveryRuns is the number of runs of each case but the first; the table shows the median.
	deliveryRuns = 3

	deliveriesPath = "/apis/sluice.dev/v1alpha1/namespaces/default/deliveries"
	deliveryRole   = "delivery"
)

// delivered measures a Delivery of a git repository with many CRDs: from its creation, or from the word to look again, to Ready.
// The controller speaks to the API server through a proxy that counts; Leases are not counted.
func delivered(ctx context.Context, c *config) (err error) {
	s, err := installRoles(ctx, c.sluice, []string{"--roles=resolution,resolver-git," + deliveryRole})
	if err != nil {
		return err
	}
	var proxy *httptest.Server
	defer func() {
		err = c.closeSystem(s, err)
		if proxy != nil { // not before the processes have ended, which speak through it
			proxy.CloseClientConnections()
			proxy.Close()
		}
	}()
	root := filepath.Join(s.dir, "repositories")
	r := &crdRepository{work: filepath.Join(s.dir, "work"), bare: filepath.Join(root, "crds.git")}
	if err := r.init(ctx); err != nil {
		return err
	}
	origin, err := gitServer(ctx, root, true)
	if err != nil {
		return err
	}
	defer origin.Close() //nolint:errcheck // nobody uses it any more
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "git-resolver-config", Namespace: systemNamespace}, Data: map[string]string{"allowed-addresses": allowLoopback, "ref-ttl": "0s"}}
	if _, err := s.kube.CoreV1().ConfigMaps(systemNamespace).Create(ctx, m, metav1.CreateOptions{}); err != nil {
		return err
	}
	// Those who use it bring their own credentials.
	handler, counted, err := counting(rest.AnonymousClientConfig(s.cluster.Config()), false)
	if err != nil {
		return err
	}
	proxy = httptest.NewTLSServer(handler)
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: proxy.Certificate().Raw})
	s.through = map[string]*rest.Config{"sluice-" + deliveryRole: {Host: proxy.URL, TLSClientConfig: rest.TLSClientConfig{CAData: certificate}}}
	if err := s.mayDeliver(ctx); err != nil {
		return err
	}
	roles, err := s.start(ctx, "resolution", "resolver-git", deliveryRole)
	if err != nil {
		return err
	}
	b := &deliveryBench{system: s, role: roles[2], counted: counted}
	rows := [][]string{{fmt.Sprintf("%d CRDs, %d kB", deliveredCRDs, len(crdsText(0, 0))/1000), "wall", "CPU of the controller", "reads", "writes", "peak memory of it", "load"}}
	for _, test := range []struct {
		name    string
		runs    int
		prepare func(ctx context.Context, run int) error
	}{
		{"first", 1, func(ctx context.Context, _ int) error { return r.commit(ctx, crdsText(0, 0)) }},
		{"unchanged", deliveryRuns, func(context.Context, int) error { return nil }},
		{fmt.Sprintf("%d changed", changedCRDs), deliveryRuns, func(ctx context.Context, run int) error { return r.commit(ctx, crdsText(changedCRDs, run+1)) }},
		{"all changed", deliveryRuns, func(ctx context.Context, run int) error { return r.commit(ctx, crdsText(deliveredCRDs, run+10)) }},
	} {
		var runs []deliveryRun
		for i := range test.runs {
			if err := test.prepare(ctx, i); err != nil {
				return err
			}
			run, err := b.run(ctx, "git+"+origin.url("/crds.git")+"//deploy?ref=main")
			if err != nil {
				return fmt.Errorf("%s: %w: %s", test.name, err, roles[2].Log())
			}
			runs = append(runs, run)
		}
		rows = append(rows, deliveryRow(test.name, runs))
	}
	c.table(rows...)
	return nil
}

// deliveryRun is one measurement.
type deliveryRun struct {
	wall, cpu     time.Duration
	reads, writes int64
	memory        int // KiB
}

func deliveryRow(name string, runs []deliveryRun) []string {
	var wall, cpu []time.Duration
	memory := 0
	for _, r := range runs {
		wall, cpu, memory = append(wall, r.wall), append(cpu, r.cpu), max(memory, r.memory)
	}
	last := runs[len(runs)-1]
	return []string{
		name, millis(median(wall)), millis(median(cpu)), fmt.Sprint(last.reads), fmt.Sprint(last.writes), fmt.Sprintf("%.1f MiB", float64(memory)/1024), loadAverage(),
	}
}

// mayDeliver lets the controller act as an account that may do everything.
func (s *system) mayDeliver(ctx context.Context) error {
	const account = "deployer"
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account}}
	_, first := s.kube.CoreV1().ServiceAccounts("default").Create(ctx, sa, metav1.CreateOptions{})
	_, second := s.kube.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: account}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: account}},
	}, metav1.CreateOptions{})
	_, third := s.kube.RbacV1().RoleBindings("default").Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "sluice-delivery"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "sluice-delivery-impersonate"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: systemNamespace, Name: "sluice-delivery"}},
	}, metav1.CreateOptions{})
	return errors.Join(first, second, third)
}

// deliveryBench measures one delivery.
type deliveryBench struct {
	*system

	role    *role
	counted *tally
	asked   int
}

// run makes the delivery, or has it look again, and waits until it is ready.
func (b *deliveryBench) run(ctx context.Context, source string) (deliveryRun, error) {
	forgetPeak(b.role.PID())
	b.counted.reads.Store(0)
	b.counted.writes.Store(0)
	cpu, start := readStat(b.role.PID()).own, time.Now()
	b.asked++
	word := fmt.Sprint(b.asked)
	object := map[string]any{
		"apiVersion": "sluice.dev/v1alpha1", "kind": "Delivery", "metadata": map[string]any{"name": "bench", "annotations": map[string]string{"sluice.dev/reconcile-at": word}},
		"spec": map[string]any{"source": map[string]any{"url": source}, "interval": "168h", "serviceAccountName": "deployer"},
	}
	body, err := json.Marshal(object)
	if err != nil {
		return deliveryRun{}, err
	}
	call := exchange{b.admin, http.MethodPatch, b.cluster.Server + deliveriesPath + "/bench?fieldManager=bench&force=true", "application/apply-patch+yaml", body}
	if code, text, err := call.do(ctx); err != nil || code >= 400 {
		return deliveryRun{}, fmt.Errorf("the delivery was answered by %d %.300s (%w)", code, text, err)
	}
	err = untilAfter(ctx, deliveryPatience, "the delivery to be ready", func() error {
		_, text, err := fetch(ctx, b.admin, b.cluster.Server+deliveriesPath+"/bench")
		var d struct {
			Status struct {
				Asked      string
				Conditions []struct{ Type, Status, Message string }
			}
		}
		if err := errors.Join(err, json.Unmarshal(text, &d)); err != nil {
			return err
		}
		for _, c := range d.Status.Conditions {
			if c.Type == "Ready" && c.Status == "True" && d.Status.Asked == word {
				return nil
			}
		}
		return fmt.Errorf("%w: %.500v", errNotYet, d.Status)
	})
	return deliveryRun{
		wall: time.Since(start), cpu: readStat(b.role.PID()).own - cpu, reads: b.counted.reads.Load(), writes: b.counted.writes.Load(),
		memory: memoryOf(b.role.PID(), "VmHWM"),
	}, err
}

// crdRepository is a git repository with one file of CRDs.
type crdRepository struct{ work, bare string }

func (r *crdRepository) init(ctx context.Context) error {
	if err := os.MkdirAll(filepath.Join(r.work, "deploy"), 0o700); err != nil {
		return err
	}
	for _, args := range [][]string{{"init", "-q", "-b", "main", r.work}, {"init", "-q", "--bare", "-b", "main", r.bare}} {
		if _, err := runGit(ctx, "", nil, args...); err != nil {
			return err
		}
	}
	return nil
}

// commit makes the text all that is delivered.
func (r *crdRepository) commit(ctx context.Context, text []byte) error {
	if err := os.WriteFile(filepath.Join(r.work, "deploy", "crds.yaml"), text, 0o600); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"add", "."},
		{"-c", "user.name=bench", "-c", "user.email=bench@example.com", "commit", "-q", "-m", "change"},
		{"push", "-q", r.bare, "main"},
	} {
		if _, err := runGit(ctx, r.work, nil, args...); err != nil {
			return err
		}
	}
	return nil
}

// crdsText writes the CRDs; of the first so many a bound and a text are those of the version.
func crdsText(changed, version int) []byte {
	var b bytes.Buffer
	for i := range deliveredCRDs {
		v := 0
		if i < changed {
			v = version
		}
		fmt.Fprintf(&b, `---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: kind%[1]ds.delivery.example.com}
spec:
  group: delivery.example.com
  scope: Namespaced
  names: {kind: Kind%[1]d, listKind: Kind%[1]dList, plural: kind%[1]ds, singular: kind%[1]d}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        description: Kind%[1]d in its version %[2]d.
        type: object
        properties:
          spec:
            type: object
            required: [name]
            properties:
              name: {type: string, minLength: 1, maxLength: 63, pattern: '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$'}
              replicas: {type: integer, format: int32, minimum: 0, maximum: %[3]d}
`, i, v, 10+v)
		for j := range 12 {
			fmt.Fprintf(&b, `              part%[1]d:
                description: Part%[1]d is one of the parts that the controller runs, with its image and its size.
                type: object
                properties: {image: {type: string, maxLength: 253}, size: {type: string, enum: [small, large]}}
`, j)
		}
	}
	return b.Bytes()
}

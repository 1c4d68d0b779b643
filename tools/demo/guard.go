package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"sluice.dev/internal/limit"
	"sluice.dev/tools/clustertest"
	"sluice.dev/tools/clustertest/nodeless"
	"sluice.dev/tools/kube"
)

// patience bounds the wait for a process.
const patience = time.Minute

// guarded installs the guard, has two clients stopped by it, and takes the way around. The guard runs until the function that
// it returns is called.
func (d *demo) guarded(ctx context.Context, k *kube.Client, config *rest.Config) (stop func(), err error) {
	d.say("A guard at admission stops v2 whoever sends it")
	address, err1 := nodeless.FreeAddress(ctx)
	health, err2 := nodeless.FreeAddress(ctx)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	if err := d.installGuard(ctx, k, address); err != nil {
		return nil, err
	}
	stop, err = d.startGuard(ctx, address, health)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			stop()
		}
	}()
	objects, err := kube.Read(filepath.Join(d.dir, "v2.yaml"))
	if err != nil {
		return nil, err
	}
	unsafe := objects[0]
	if err := until(ctx, "the guard to act", func() error {
		if err := k.ApplyObject(ctx, unsafe, true); !apierrors.IsForbidden(err) {
			return fmt.Errorf("it let v2 pass (%w)", err)
		}
		return nil
	}); err != nil {
		return nil, err
	}
	out, err := d.command(ctx, 1, d.kubectl, "apply", "--server-side", "--force-conflicts", "-f", "v2.yaml")
	if err != nil {
		return nil, err
	}
	fmt.Fprint(d.out, out)
	refused := k.ApplyObject(ctx, unsafe, false)
	if !apierrors.IsForbidden(refused) {
		return nil, fmt.Errorf("a client of client-go was not refused: %w", refused)
	}
	first, _, _ := strings.Cut(refused.Error(), "\n")
	fmt.Fprintf(d.out, "A client made with client-go, under another field manager, is told the same:\n%s\n...\n", first)
	return stop, d.around(ctx, k, config, unsafe, health)
}

// around lets v2 through, as an operator does who knows better.
func (d *demo) around(ctx context.Context, k *kube.Client, config *rest.Config, unsafe *unstructured.Unstructured, health string) error {
	d.say("Who may, and says why, lets that one change through; it is recorded")
	out, err := d.command(ctx, 0, d.sluice, "check", "--print-hash", "v2.yaml")
	if err != nil {
		return err
	}
	fmt.Fprint(d.out, out)
	digest, _, _ := strings.Cut(out, " ")
	annotated := unsafe.DeepCopy()
	annotated.SetAnnotations(map[string]string{"sluice.dev/allow-unsafe-upgrade": digest + ": mariadb was never used, see the survey"})
	if err := k.ApplyObject(ctx, annotated, false); err != nil {
		return err
	}
	fmt.Fprintf(d.out, "applied v2 with the annotation sluice.dev/allow-unsafe-upgrade: \"%.12s...: mariadb was never used, see the survey\"\n", digest)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	err = until(ctx, "the event", func() error {
		list, err := client.CoreV1().Events("default").List(ctx, metav1.ListOptions{FieldSelector: "reason=UnsafeUpgradeAllowed"})
		if err != nil {
			return err
		}
		if len(list.Items) == 0 {
			return errors.New("not yet")
		}
		e := list.Items[0]
		text, _, _ := strings.Cut(e.Message, "\n")
		fmt.Fprintf(d.out, "event %s of %s: %.300s\n", e.Reason, e.InvolvedObject.Name, text)
		return nil
	})
	if err != nil {
		return err
	}
	body, err := get(ctx, "http://"+health+"/metrics")
	if err != nil {
		return err
	}
	for line := range strings.Lines(body) {
		if strings.HasPrefix(line, "sluice_crd_guard_bypasses_total") {
			fmt.Fprint(d.out, "metric "+line)
		}
	}
	return nil
}

// installGuard installs the manifests of the guard. Nothing runs its Deployment here, so the API server calls it by its address.
func (d *demo) installGuard(ctx context.Context, k *kube.Client, address string) error {
	out, err := d.command(ctx, 0, d.sluice, "manifests", "--image=example.test/sluice", "--roles=crd-guard", "--guard-reads=example.sluice.dev")
	if err != nil {
		return err
	}
	objects, err := kube.Decode([]byte(out))
	if err != nil {
		return err
	}
	n := 0
	for _, u := range objects {
		switch u.GetKind() {
		case "Deployment":
			continue
		case "ValidatingWebhookConfiguration":
			hooks, _, err := unstructured.NestedSlice(u.Object, "webhooks")
			if err != nil {
				return err
			}
			for _, h := range hooks {
				hook, ok := h.(map[string]any)
				if !ok {
					continue
				}
				path, _, err := unstructured.NestedString(hook, "clientConfig", "service", "path")
				if err != nil {
					return err
				}
				hook["clientConfig"] = map[string]any{"url": "https://" + address + path}
			}
			if err := unstructured.SetNestedSlice(u.Object, hooks, "webhooks"); err != nil {
				return err
			}
		}
		if err := k.ApplyObject(ctx, u, false); err != nil {
			return fmt.Errorf("%s %s: %w", u.GetKind(), u.GetName(), err)
		}
		n++
	}
	fmt.Fprintf(d.out, "applied %d objects of them\n", n)
	return nil
}

// startGuard starts the guard's process and waits until it is ready.
func (d *demo) startGuard(ctx context.Context, address, health string) (stop func(), err error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(d.sluice, "serve", "--roles=crd-guard", "--kubeconfig", d.kubeconfig, "--listen", health, //nolint:noctx // it is ended by stop
		"--guard-listen", address, "--guard-host", host)
	cmd.Env = append(os.Environ(), "TMPDIR="+d.dir)
	p, err := nodeless.Launch("the guard", health, cmd)
	if err != nil {
		return nil, err
	}
	stop = func() { _ = p.Stop() } // what it logged has been told
	if err := p.Ready(ctx); err != nil {
		stop()
		return nil, err
	}
	fmt.Fprintf(d.out, "sluice serve --roles=crd-guard runs at %s\n", address)
	return stop, nil
}

func get(ctx context.Context, url string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer response.Body.Close() //nolint:errcheck // it was only read
	body, err := limit.ReadAll(response.Body, 1<<20)
	if err == nil && response.StatusCode != http.StatusOK {
		err = errors.New(string(body))
	}
	return string(body), err
}

// until waits for a condition.
func until(ctx context.Context, what string, check func() error) error {
	return clustertest.Until(ctx, patience, what, func(context.Context) error { return check() })
}

package nodeless

// Who runs the Deployments where no kubelet does? The node looks at them again and again, starts one process
// for each, and writes the status that controllers would write.

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
)

// Image is what the containers of all Deployments run.
type Image struct {
	// Program is the path of sluice; in Root, if that is set.
	Program string
	// Root is the unpacked root of the image. The processes run in it as the user of the Pod. Only root may do that; if it is empty,
	// they run in the file system of this machine.
	Root string
}

// pod is a running process of a Deployment.
// There is one for each Deployment, whatever its replicas. While a new one replaces it, the old one is
// not in the map of the node any more.
type pod struct {
	*Process

	namespace string
	labels    map[string]string
	// template is the Pod template that it runs.
	template string
	// ports are the addresses of its ports, by their names and numbers in the template.
	ports map[string]string
	// preStop is how long it goes on before it is told to end.
	preStop time.Duration
	// listed: the Service of its Deployment, if any, has its EndpointSlice.
	listed bool
}

// Join runs the Deployments of a cluster, and follows them, until Close.
// Errors while following do not stop it: they are returned by [Node.Close]. The Deployments are looked at every 200 ms.
func (n *Node) Join(config *rest.Config, image Image) (err error) {
	if n.kube, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	n.image, n.config = image, config
	ctx, cancel := context.WithCancel(context.Background())
	n.cancel, n.done = cancel, make(chan struct{})
	go func() {
		defer close(n.done)
		for ctx.Err() == nil {
			if err := n.syncDeployments(ctx); err != nil && ctx.Err() == nil {
				n.mu.Lock()
				n.errs = append(n.errs, err)
				n.mu.Unlock()
			}
			select {
			case <-ctx.Done():
			case <-time.After(4 * pause): // a look asks for each Deployment
			}
		}
	}()
	return nil
}

// Rest ends the following of Deployments: their processes go on as they are.
func (n *Node) Rest() {
	n.cancel()
	<-n.done
}

// leaveGracefully ends a process that has a successor. As in a cluster, calls still come to it for some time: its template says for how long.
func (n *Node) leaveGracefully(p *pod) {
	n.leaving.Go(func() {
		select {
		case <-p.Ended():
		case <-time.After(p.preStop):
		}
		if err := p.Stop(); err != nil {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.errs = append(n.errs, err)
		}
	})
}

// Close ends all processes. Its error says what went wrong since Join.
// It must be called once. A process that ended by itself, or that had to be killed, is an error.
func (n *Node) Close() error {
	if n.cancel != nil {
		n.Rest()
	}
	n.leaving.Wait()
	for _, p := range n.pods {
		n.errs = append(n.errs, p.Stop())
	}
	return errors.Join(append(n.errs, n.server.Close(), os.RemoveAll(n.dir))...)
}

// Logs returns what the running processes have logged, by Deployment.
func (n *Node) Logs() map[string]string {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := map[string]string{}
	for key, p := range n.pods {
		out[key] = p.Log()
	}
	return out
}

// Processes returns those that run, by the names of their Deployments.
func (n *Node) Processes() map[string]*Process {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := map[string]*Process{}
	for key, p := range n.pods {
		out[strings.TrimPrefix(key, p.namespace+"/")] = p.Process
	}
	return out
}

// syncDeployments makes the processes those of the Deployments. A new one is ready before the old one ends.
// Changed are Deployments whose template differs as JSON, which is what makes a rollout in a cluster. A
// process that has ended by itself is reported and started again, as the kubelet does.
func (n *Node) syncDeployments(ctx context.Context) error {
	list, err := n.kube.AppsV1().Deployments("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	var errs []error
	wanted := map[string]bool{}
	for i := range list.Items {
		d := &list.Items[i]
		key := d.Namespace + "/" + d.Name
		wanted[key] = true
		if d.DeletionTimestamp != nil {
			errs = append(errs, n.endPod(key), n.setFinalizer(ctx, d, false))
			continue
		}
		template, err := json.Marshal(d.Spec.Template)
		if err != nil {
			return err
		}
		old := n.pods[key]
		if old != nil && old.Over() {
			errs = append(errs, fmt.Errorf("%w, by itself", old.endedError()))
			old = nil
		}
		if old == nil || old.template != string(template) {
			p, err := n.startPod(ctx, d, string(template))
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", key, err))
				continue
			}
			n.mu.Lock()
			n.pods[key] = p
			n.mu.Unlock()
			if old != nil {
				n.leaveGracefully(old)
			}
		}
		errs = append(errs, n.setFinalizer(ctx, d, true), n.reportStatus(ctx, d))
	}
	for key := range n.pods {
		if !wanted[key] {
			errs = append(errs, n.endPod(key))
		}
	}
	return errors.Join(errs...)
}

// endPod ends the process of a Deployment, and those that leave.
func (n *Node) endPod(key string) error {
	n.leaving.Wait()
	n.mu.Lock()
	p := n.pods[key]
	delete(n.pods, key)
	n.mu.Unlock()
	if p == nil {
		return nil
	}
	return p.Stop()
}

// finalizer holds a Deployment until its process has ended, as its Pods do in a cluster where it is deleted in the foreground.
const finalizer = "nodeless.test/process"

// setFinalizer sets the finalizer of a Deployment, or takes it off. Where somebody else has written the Deployment, the next look does it.
func (n *Node) setFinalizer(ctx context.Context, d *appsv1.Deployment, on bool) error {
	if slices.Contains(d.Finalizers, finalizer) == on {
		return nil
	}
	finalizers := slices.DeleteFunc(slices.Clone(d.Finalizers), func(f string) bool { return f == finalizer })
	if on {
		finalizers = append(finalizers, finalizer)
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": d.ResourceVersion, "finalizers": finalizers}})
	if err != nil {
		return err
	}
	_, err = n.kube.AppsV1().Deployments(d.Namespace).Patch(ctx, d.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// reportStatus writes what the controllers of Deployments and of EndpointSlices would write.
// Clients that wait for a rollout look at these fields. A Deployment with several replicas has one
// process and reports all of them.
func (n *Node) reportStatus(ctx context.Context, d *appsv1.Deployment) error {
	replicas := ptr.Deref(d.Spec.Replicas, 1)
	if d.Status.ObservedGeneration != d.Generation || d.Status.AvailableReplicas != replicas {
		d = d.DeepCopy()
		d.Status = appsv1.DeploymentStatus{
			ObservedGeneration: d.Generation, Replicas: replicas, UpdatedReplicas: replicas, ReadyReplicas: replicas, AvailableReplicas: replicas,
			Conditions: []appsv1.DeploymentCondition{{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue, Reason: "MinimumReplicasAvailable"}},
		}
		if _, err := n.kube.AppsV1().Deployments(d.Namespace).UpdateStatus(ctx, d, metav1.UpdateOptions{}); err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return err
		}
	}
	if p := n.pods[d.Namespace+"/"+d.Name]; !p.listed {
		return n.listEndpoints(ctx, d, p)
	}
	return nil
}

// listEndpoints writes the EndpointSlice of the Service that has the name of a Deployment, if there is one.
// The API server only looks whether there is an endpoint; the connection goes through the proxy. Nothing
// changes the slice later.
func (n *Node) listEndpoints(ctx context.Context, d *appsv1.Deployment, p *pod) error {
	service, err := n.kube.CoreV1().Services(d.Namespace).Get(ctx, d.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil // it may come later
	}
	if err != nil {
		return err
	}
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Name: d.Name, Labels: map[string]string{discoveryv1.LabelServiceName: d.Name},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(service, corev1.SchemeGroupVersion.WithKind("Service"))},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"10.9.9.9"}}}, // one that is no address of this machine
	}
	if _, err := n.kube.DiscoveryV1().EndpointSlices(d.Namespace).Create(ctx, slice, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) && !apierrors.IsForbidden(err) {
		return err // forbidden: the namespace is being deleted
	}
	p.listed = true
	return nil
}

// startPod runs the container of a Deployment and waits until it is ready.
// The flags and variables are those of the Deployment. Three things differ: paths of volumes are folders
// on this machine, ports are free ones, and a kubeconfig with a token of the ServiceAccount takes the
// place of the mounted token.
func (n *Node) startPod(ctx context.Context, d *appsv1.Deployment, template string) (*pod, error) {
	spec := d.Spec.Template.Spec
	if len(spec.Containers) != 1 {
		return nil, fmt.Errorf("%d containers, want one", len(spec.Containers))
	}
	c := spec.Containers[0]
	name := fmt.Sprintf("%s-%s", d.Name, strings.ToLower(rand.Text()[:8]))
	p := &pod{namespace: d.Namespace, labels: d.Spec.Template.Labels, template: template, ports: map[string]string{}}
	if l := c.Lifecycle; l != nil && l.PreStop != nil && l.PreStop.Sleep != nil {
		p.preStop = time.Duration(l.PreStop.Sleep.Seconds) * time.Second
	}
	tmp := filepath.Join(n.image.Root, "tmp", name)
	if n.image.Root == "" {
		tmp = filepath.Join(n.dir, name)
	}
	if err := os.MkdirAll(tmp, 0o700); err != nil {
		return nil, err
	}
	if err := Kubeconfig(ctx, n.kube, n.config, d.Namespace, spec.ServiceAccountName, filepath.Join(tmp, "kubeconfig")); err != nil {
		return nil, err
	}
	// In a chroot the process sees the path without the root.
	inside := strings.TrimPrefix(tmp, n.image.Root)
	var mounts []string // the paths of volumes, and the folders that stand for them
	for _, m := range c.VolumeMounts {
		folder := filepath.Join(inside, "volume-"+m.Name)
		if err := os.Mkdir(filepath.Join(tmp, "volume-"+m.Name), 0o750); err != nil {
			return nil, err
		}
		mounts = append(mounts, m.MountPath, folder)
	}
	mounted := strings.NewReplacer(mounts...)
	var args []string
	for _, a := range c.Args {
		args = append(args, mounted.Replace(a))
	}
	args = append(args, "--kubeconfig="+filepath.Join(inside, "kubeconfig"))
	for _, port := range c.Ports {
		address, err := FreeAddress(ctx)
		if err != nil {
			return nil, err
		}
		p.ports[port.Name], p.ports[fmt.Sprint(port.ContainerPort)] = address, address
		args = append(args, listenFlag(c.Args, port.Name)+"="+address)
	}
	cmd := exec.Command(n.image.Program, args...) //nolint:gosec,noctx // the program under test; Stop ends it
	cmd.Env = []string{"PATH=" + cmp.Or(os.Getenv("PATH"), "/usr/bin")}
	for _, e := range c.Env {
		switch {
		case e.ValueFrom != nil && e.ValueFrom.FieldRef != nil && e.ValueFrom.FieldRef.FieldPath == "metadata.name":
			e.Value = name
		case e.ValueFrom != nil:
			return nil, fmt.Errorf("the variable %s comes from a source that the node does not know", e.Name)
		}
		cmd.Env = append(cmd.Env, e.Name+"="+mounted.Replace(e.Value))
	}
	// The process runs as the user of the Pod and sees nothing but the image, so that a file which the
	// image lacks is missed here as in a cluster.
	if n.image.Root != "" {
		user := uint32(*spec.SecurityContext.RunAsUser) //nolint:gosec // a user id
		cmd.Env = append(cmd.Env, "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt")
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: n.image.Root, Credential: &syscall.Credential{Uid: user, Gid: user}}
		cmd.Dir = "/"
		if err := n.makeDevNull(); err != nil {
			return nil, err
		}
		err := filepath.WalkDir(tmp, func(name string, _ fs.DirEntry, err error) error {
			return errors.Join(err, os.Chown(name, int(user), int(user))) //nolint:gosec // the folder was made above
		})
		if err != nil {
			return nil, err
		}
	}
	var err error
	if p.Process, err = Launch(name, p.ports["http"], cmd); err != nil {
		return nil, err
	}
	if err := p.Ready(ctx); err != nil {
		return nil, errors.Join(err, p.Stop())
	}
	return p, nil
}

// makeDevNull makes /dev/null in the root of the image, as a container has it.
func (n *Node) makeDevNull() error {
	name := filepath.Join(n.image.Root, "dev", "null")
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil { //nolint:gosec // /dev
		return err
	}
	const null, everybody = 1<<8 | 3, 0o666
	if err := syscall.Mknod(name, syscall.S_IFCHR|everybody, null); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return os.Chmod(name, everybody)
}

// listenFlag is the flag that moves a port of a role.
func listenFlag(args []string, port string) string {
	switch {
	case port == "http":
		return "--listen"
	case slices.Contains(args, "--roles=feature-webhook"):
		return "--feature-webhook-listen"
	case slices.Contains(args, "--roles=crd-guard"):
		return "--guard-listen"
	default:
		return "--webhook-listen"
	}
}

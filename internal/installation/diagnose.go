package installation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"sluice.dev/config"
)

// sluice doctor looks at an installation from the outside, with the rights of the user who runs it. It starts with what everything
// else needs, so the first Fail is usually the cause. What the user may not read is a warning and not a failure: the rest can still
// be looked at. For example, the check of a Deployment whose Pod was killed for its memory has the advice to raise the limit.

// State is the outcome of a check.
type State string

// The states, from good to bad.
const (
	OK   State = "ok"
	Warn State = "warn" // something may go wrong, or could not be looked at
	Fail State = "fail" // something does not work
)

// Check is something that was looked at.
type Check struct {
	// Subject is an object, as KIND NAMESPACE/NAME, or a word such as "clock".
	Subject string `json:"subject"`
	State   State  `json:"state"`
	Message string `json:"message"`
	// Fix says what to do; empty where nothing is wrong.
	Fix string `json:"fix,omitempty"`
}

// oldest is the first Kubernetes version whose admissionregistration.k8s.io/v1 has policies.
var oldest = version.MustParseGeneric("1.30")

// troubleAnnotation is the annotation of a Lease in which a process says what it suffers from (internal/controller/resolution).
const troubleAnnotation = "sluice.dev/trouble"

// maxSkew is how far clocks may be apart before Leases are misjudged.
const maxSkew = 5 * time.Second

// doctor looks at one installation.
type doctor struct {
	*Cluster
	dynamic dynamic.Interface
	http    *http.Client
	host    string
	now     func() time.Time

	// deployments are those of Sluice, by role.
	deployments map[string]*appsv1.Deployment
	// serverTime is what the API server's clock says, less what this machine's does.
	skew   time.Duration
	checks []Check
}

// Diagnose looks at what Sluice has in the cluster and returns what it found, in the order in which one would look: the API
// server, programs, what they installed, webhooks, policies, and the state of Sluice's own kinds. It changes nothing. What it may
// not read is a check with the state [Warn], and what the API server cannot read one with the state [Fail]. An error means that the
// API server does not answer.
func Diagnose(ctx context.Context, config *rest.Config, namespace string, now func() time.Time) ([]Check, error) {
	c, err := New(config, namespace)
	if err != nil {
		return nil, err
	}
	d := &doctor{Cluster: c, host: strings.TrimSuffix(config.Host, "/"), now: now, deployments: map[string]*appsv1.Deployment{}}
	if !strings.Contains(d.host, "://") {
		d.host = "https://" + d.host
	}
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = 50, 300 // as kubectl has them
	if d.dynamic, err = dynamic.NewForConfig(config); err != nil {
		return nil, err
	}
	if d.http, err = rest.HTTPClientFor(config); err != nil {
		return nil, err
	}
	for _, look := range []func(context.Context) error{d.checkServer, d.checkPrograms, d.checkManifests, d.checkCredentials, d.checkWebhooks, d.checkPolicies, d.checkLeases, d.checkKinds} {
		if err := look(ctx); err != nil {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			return nil, err
		}
	}
	return d.checks, nil
}

func (d *doctor) addCheck(state State, subject, fix, format string, args ...any) {
	d.checks = append(d.checks, Check{Subject: subject, State: state, Message: fmt.Sprintf(format, args...), Fix: fix})
}

// noteUnread notes what the API server did not let be read. It returns the error if the API server did not answer.
//
// Missing rights are a warning, because the rest may be fine. Any other answer is a failure: the API server itself cannot read these
// objects, so nobody can.
func (d *doctor) noteUnread(subject string, err error) error {
	switch {
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		d.addCheck(Warn, subject, "run the command as a user with the right to read it", "not looked at: %v", err)
	case isAnswer(err):
		d.addCheck(Fail, subject, "find out why the API server cannot read them; a webhook that it calls for them may be down", "cannot be read: %v", err)
	default:
		return fmt.Errorf("%s: %w", subject, err)
	}
	return nil
}

// checkServer looks at the version and the clock of the API server.
//
// The clock matters because Leases have times of the processes, and the doctor compares them with its own. The difference to the API
// server's clock is kept for that.
func (d *doctor) checkServer(ctx context.Context) error {
	info, err := d.discovery.ServerVersion()
	if err != nil {
		return err
	}
	v, err := version.ParseGeneric(info.GitVersion)
	if err != nil {
		return err
	}
	if v.LessThan(oldest) {
		d.addCheck(Fail, "API server", "use Kubernetes "+oldest.String()+" or newer", "Kubernetes %s has no admission policies of version v1, which Sluice needs", v)
	} else {
		d.addCheck(OK, "API server", "", "Kubernetes %s", v)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.host+"/version", nil)
	if err != nil {
		return err
	}
	before := d.now()
	resp, err := d.http.Do(req)
	if err != nil {
		return err
	}
	_ = resp.Body.Close() // only the header matters
	at, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil {
		d.addCheck(Warn, "clock", "", "the API server does not tell its time: %v", err)
		return nil
	}
	// The header has whole seconds.
	d.skew = at.Sub(before.Truncate(time.Second))
	if d.skew.Abs() > maxSkew {
		d.addCheck(Warn, "clock", "set the clocks by NTP", "the API server's clock differs from this machine's by %s", d.skew)
	} else {
		d.addCheck(OK, "clock", "", "the API server's clock agrees with this machine's")
	}
	return nil
}

// checkPrograms looks at the Deployments and their Pods.
//
// A Deployment with fewer replicas than it wants is a warning, and one with none a failure. Different images are told of, since an
// upgrade may have stopped half-way.
func (d *doctor) checkPrograms(ctx context.Context) error {
	list, err := d.kube.AppsV1().Deployments(d.namespace).List(ctx, metav1.ListOptions{LabelSelector: partOf})
	if err != nil {
		return d.noteUnread("Deployments in "+d.namespace, err)
	}
	images := map[string][]string{}
	for i := range list.Items {
		p := &list.Items[i]
		role := p.Labels[component]
		d.deployments[role] = p
		subject := Object{Kind: "Deployment", Namespace: p.Namespace, Name: p.Name}.String()
		for _, c := range p.Spec.Template.Spec.Containers {
			images[c.Image] = append(images[c.Image], p.Name)
		}
		want, have := ptr.Deref(p.Spec.Replicas, 1), p.Status.AvailableReplicas
		if have >= want {
			d.addCheck(OK, subject, "", "%d of %d replicas are available", have, want)
			continue
		}
		why, fix, err := d.podProblem(ctx, p)
		if err != nil {
			return err
		}
		state := Warn
		if have == 0 {
			state = Fail
		}
		d.addCheck(state, subject, fix, "%d of %d replicas are available%s", have, want, why)
	}
	if len(list.Items) == 0 {
		d.addCheck(Fail, "programs", d.applyCommand(), "there is no Deployment of Sluice in the namespace %s; --namespace names another one", d.namespace)
	}
	if err := d.checkOthers(ctx); err != nil {
		return err
	}
	if len(images) > 1 {
		var lines []string
		for image, of := range images {
			slices.Sort(of)
			lines = append(lines, image+" ("+strings.Join(of, ", ")+")")
		}
		slices.Sort(lines)
		d.addCheck(Warn, "images", "apply the manifests of one version", "the roles run different images: %s", strings.Join(lines, ", "))
	}
	return nil
}

// applyCommand is the command that installs roles as they are installed here, as far as the Deployments tell.
//
// A release of Helm gets the command of Helm, whose next upgrade would undo what kubectl applies. The image is the one that most
// containers run, and IMAGE stands for one that this build does not know.
func (d *doctor) applyCommand(roles ...string) string {
	images := map[string]int{}
	most := ""
	for _, role := range slices.Sorted(maps.Keys(d.deployments)) {
		p := d.deployments[role]
		if release := p.Annotations["meta.helm.sh/release-name"]; release != "" {
			return "helm upgrade " + release + " CHART --namespace " + p.Annotations["meta.helm.sh/release-namespace"] + " --reuse-values, with " + strings.Join(roles, " and ") + " among the roles"
		}
		for _, c := range p.Spec.Template.Spec.Containers {
			if images[c.Image]++; images[c.Image] > images[most] {
				most = c.Image
			}
		}
	}
	if _, err := config.Manifests(config.Options{}); most == "" && errors.Is(err, config.ErrNoImage) {
		most = "IMAGE"
	}
	command := "sluice manifests"
	flag := func(name, value, usual string) {
		if value != usual {
			command += " --" + name + "=" + value
		}
	}
	o := d.flagOptions()
	if o.BesideTekton {
		command += " --beside-tekton"
		flag("tekton-namespace", o.TektonNamespace, "tekton-pipelines")
		flag("tekton-resolvers-namespace", cmp.Or(o.TektonResolversNamespace, "tekton-pipelines-resolvers"), "tekton-pipelines-resolvers")
	}
	if o.GuardCertManager && slices.Contains(roles, config.GuardRole) {
		command += " --guard-cert-manager"
	}
	flag("namespace", d.namespace, DefaultNamespace)
	flag("roles", strings.Join(roles, ","), "")
	flag("image", most, "")
	return command + " | kubectl apply --server-side -f -"
}

// checkOthers looks for installations in other namespaces: all of them share the objects that have no namespace.
//
// A user without the right to list Deployments everywhere gets no such check.
func (d *doctor) checkOthers(ctx context.Context) error {
	list, err := d.kube.AppsV1().Deployments(metav1.NamespaceAll).List(ctx, metav1.ListOptions{LabelSelector: partOf})
	if apierrors.IsForbidden(err) {
		return nil // the check of this namespace is all that the user may do
	}
	if err != nil {
		return err
	}
	var namespaces []string
	for i := range list.Items {
		at := list.Items[i].Namespace
		if strings.HasPrefix(list.Items[i].Name, "sluice-") && at != d.namespace && !slices.Contains(namespaces, at) {
			namespaces = append(namespaces, at)
		}
	}
	if len(namespaces) > 0 {
		slices.Sort(namespaces)
		d.addCheck(Warn, "installations", "apply the manifests for the namespace that stays again, then delete the others",
			"Sluice is installed in %s as well; a cluster can have it once, for installations share cluster roles, policies, webhooks and kinds", strings.Join(namespaces, ", "))
	}
	return nil
}

// podProblem says why a Deployment has fewer Pods that work than it wants.
//
// why begins with "; " and follows the number of replicas; empty if the Pods show no cause. The first Pod with a cause decides, since
// the others usually have the same.
func (d *doctor) podProblem(ctx context.Context, p *appsv1.Deployment) (why, fix string, err error) {
	selector := metav1.FormatLabelSelector(p.Spec.Selector)
	list, err := d.kube.CoreV1().Pods(p.Namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	switch {
	case apierrors.IsForbidden(err):
		return "; its Pods cannot be read", "kubectl -n " + p.Namespace + " get pods -l " + selector, nil
	case err != nil:
		return "", "", err
	case len(list.Items) == 0:
		return "; it has no Pod", "kubectl -n " + p.Namespace + " describe replicasets -l " + selector, nil
	}
	for i := range list.Items {
		pod := &list.Items[i]
		for _, s := range pod.Status.ContainerStatuses {
			logs := "kubectl -n " + p.Namespace + " logs --previous " + pod.Name
			if last := s.LastTerminationState.Terminated; last != nil && last.Reason == "OOMKilled" {
				return "; Pod " + pod.Name + " took more memory than its limit", "raise the memory limit of " + p.Name, nil
			}
			if w := s.State.Waiting; w != nil && w.Reason != "ContainerCreating" {
				fix := logs
				if strings.Contains(w.Reason, "Image") {
					fix = "check the image " + s.Image + " and the secrets to pull it"
				}
				return fmt.Sprintf("; Pod %s waits: %s %s", pod.Name, w.Reason, w.Message), fix, nil
			}
		}
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
				return "; Pod " + pod.Name + " is not scheduled: " + c.Message, "kubectl -n " + p.Namespace + " describe pod " + pod.Name, nil
			}
		}
	}
	return "", "kubectl -n " + p.Namespace + " describe pods -l " + selector, nil
}

// checkLeases looks at the processes that tell of themselves by Leases.
//
// A Lease that was not renewed in time belongs to a process that was killed. The others notice by the same rule, and take its work
// over. The processes may run on nodes whose clocks differ by [maxSkew].
func (d *doctor) checkLeases(ctx context.Context) error {
	list, err := d.kube.CoordinationV1().Leases(d.namespace).List(ctx, metav1.ListOptions{LabelSelector: "sluice.dev/member"})
	if err != nil {
		return d.noteUnread("Leases in "+d.namespace, err)
	}
	live := 0
	for i := range list.Items {
		l := &list.Items[i]
		if l.Spec.RenewTime == nil || l.Spec.LeaseDurationSeconds == nil {
			continue
		}
		subject := Object{Kind: "Lease", Namespace: l.Namespace, Name: l.Name}.String()
		age := d.now().Add(d.skew).Sub(l.Spec.RenewTime.Time)
		switch {
		case age < -maxSkew:
			d.addCheck(Warn, subject, "set the clock of its node by NTP", "it was renewed %s in the future: the clock of that process is ahead", (-age).Round(time.Second))
		case age > time.Duration(*l.Spec.LeaseDurationSeconds)*time.Second+maxSkew:
			d.addCheck(Warn, subject, "kubectl -n "+l.Namespace+" delete lease "+l.Name, "the process has not renewed it for %s; it has stopped without saying so", age.Round(time.Second))
		default:
			live++
			if trouble := l.Annotations[troubleAnnotation]; trouble != "" {
				d.addCheck(Warn, subject, "kubectl -n "+l.Namespace+" logs "+ptr.Deref(l.Spec.HolderIdentity, l.Name), "its process says: %s", trouble)
			}
		}
	}
	if live > 0 {
		d.addCheck(OK, "processes", "", "%d tell that they work", live)
	}
	return nil
}

// checkKinds looks at what the objects of Sluice's own kinds say of themselves.
//
// A kind that is not installed has no check. The first few objects are named, since a cluster may have hundreds.
func (d *doctor) checkKinds(ctx context.Context) error {
	for _, k := range []struct{ kind, condition, fix string }{
		{"Component", "Enforced", "kubectl describe components.sluice.dev"},
		{"Delivery", "Ready", "kubectl describe deliveries.sluice.dev -A"},
	} {
		mapping, err := d.mapper.RESTMapping(groupKinds("sluice.dev", k.kind)[0])
		if err != nil {
			continue // it is not installed
		}
		list, err := d.dynamic.Resource(mapping.Resource).List(ctx, metav1.ListOptions{})
		if err != nil {
			if err := d.noteUnread(k.kind+" objects", err); err != nil {
				return err
			}
			continue
		}
		var bad []string
		for i := range list.Items {
			if message, ok := notTrue(&list.Items[i], k.condition); ok {
				bad = append(bad, Object{Kind: k.kind, Namespace: list.Items[i].GetNamespace(), Name: list.Items[i].GetName()}.String()+": "+message)
			}
		}
		n := len(list.Items)
		switch {
		case len(bad) > 0:
			more := ""
			if len(bad) > 3 {
				more = fmt.Sprintf(" and %d more", len(bad)-3)
			}
			d.addCheck(Warn, k.kind+" objects", k.fix, "%d of %d are not %s: %s%s", len(bad), n, k.condition, strings.Join(bad[:min(3, len(bad))], "; "), more)
		case n > 0:
			d.addCheck(OK, k.kind+" objects", "", "%d are %s", n, k.condition)
		}
	}
	return nil
}

// notTrue returns the message of a condition that is not True.
//
// An object without the condition is told of too. Its controller has not looked at it, which is the same to a user.
func notTrue(o *unstructured.Unstructured, condition string) (string, bool) {
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range list {
		c, _ := c.(map[string]any)
		if c["type"] != condition {
			continue
		}
		message, _ := c["message"].(string)
		return message, c["status"] != "True"
	}
	return "it has no condition " + condition + " yet; does its controller run?", true
}

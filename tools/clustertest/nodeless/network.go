// Package nodeless makes an API server without nodes behave as a cluster with nodes does, for an installation of Sluice: its
// Deployments run as processes of this machine under their ServiceAccounts, and the API server reaches their Services. The manifests
// stay as they are.
package nodeless

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"sluice.dev/tools/clustertest"
)

// egress sends the API server's connections to the cluster's network through a socket (k8s.io/apiserver/pkg/apis/apiserver/v1beta1).
const egress = `apiVersion: apiserver.k8s.io/v1beta1
kind: EgressSelectorConfiguration
egressSelections:
- name: cluster
  connection:
    proxyProtocol: HTTPConnect
    transport: {uds: {udsName: %q}}
`

// Node stands in for the nodes of a cluster and for its network.
type Node struct {
	dir      string
	listener net.Listener
	server   *http.Server
	config   *rest.Config
	kube     kubernetes.Interface
	image    Image

	cancel context.CancelFunc
	done   chan struct{}
	// leaving are the processes that have a successor and end.
	leaving sync.WaitGroup

	mu   sync.Mutex
	pods map[string]*pod
	errs []error
}

// New makes a node whose files are in a folder that Close removes.
// Its proxy listens from now on, so that an API server can be started with [Node.Option]. It knows no
// Services before [Node.Join].
func New(ctx context.Context) (*Node, error) {
	dir, err := os.MkdirTemp("", "node") // the path of a socket has 107 bytes at most
	if err != nil {
		return nil, err
	}
	n := &Node{dir: dir, pods: map[string]*pod{}}
	if n.listener, err = (&net.ListenConfig{}).Listen(ctx, "unix", filepath.Join(dir, "egress")); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := os.WriteFile(n.egressFile(), fmt.Appendf(nil, egress, n.listener.Addr().String()), 0o600); err != nil {
		return nil, errors.Join(err, n.listener.Close(), os.RemoveAll(dir))
	}
	n.server = &http.Server{Handler: http.HandlerFunc(n.proxyConnect), ReadHeaderTimeout: time.Minute}
	go func() { _ = n.server.Serve(n.listener) }() // it ends with an error when it is closed
	return n, nil
}

func (n *Node) egressFile() string { return filepath.Join(n.dir, "egress.yaml") }

// Option makes an API server use the node's network. The cluster has to be started with it.
func (n *Node) Option() clustertest.Option {
	return clustertest.APIServerArg("egress-selector-config-file=" + n.egressFile())
}

// proxyConnect is a proxy for CONNECT, from the API server to an address of the cluster.
// This is the proxy side of the API server's egress selector. Both directions are copied until one of
// them ends; then both connections are closed, as a network would.
func (n *Node) proxyConnect(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodConnect {
		http.Error(w, "want CONNECT", http.StatusMethodNotAllowed)
		return
	}
	address, err := n.addressBehind(r.Context(), r.Host)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	to, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(r.Context(), "tcp", address)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	from, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		_ = to.Close()
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	var wg sync.WaitGroup
	copying := func(dst, src net.Conn) {
		_, _ = io.Copy(dst, src)
		_, _ = dst.Close(), src.Close() // the other direction ends too
	}
	if _, err := io.WriteString(from, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		_, _ = from.Close(), to.Close()
		return
	}
	wg.Go(func() { copying(to, from) })
	wg.Go(func() { copying(from, to) })
	wg.Wait()
}

// addressBehind returns the address of a process behind an address of a Service, and any other address as it is.
// The Services are listed for each connection. There are few of both, and a cache would have to follow
// changes.
func (n *Node) addressBehind(ctx context.Context, address string) (string, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", err
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return "", err
	}
	services, err := n.kube.CoreV1().Services("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	for i := range services.Items {
		s := &services.Items[i]
		if s.Spec.ClusterIP != host {
			continue
		}
		for _, p := range s.Spec.Ports {
			if int(p.Port) == number {
				return n.readyAddress(s, p.TargetPort)
			}
		}
		return "", fmt.Errorf("the Service %s/%s has no port %d", s.Namespace, s.Name, number)
	}
	return address, nil
}

// readyAddress returns the address of a ready process that a Service selects.
// A process is in n.pods only after it was ready, so readiness is not asked again. The port is that of
// the Service's targetPort, by name or number.
func (n *Node) readyAddress(s *corev1.Service, port intstr.IntOrString) (string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range n.pods {
		if p.namespace == s.Namespace && labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(p.labels)) && p.ports[port.String()] != "" {
			return p.ports[port.String()], nil
		}
	}
	return "", fmt.Errorf("the Service %s/%s has no ready Pod", s.Namespace, s.Name)
}

// Package cluster starts and stops one local Kubernetes cluster: etcd in this process, and a kube-apiserver and a
// kube-controller-manager as its children.
//
// It promises that a ready cluster answers requests, has its default namespace and ServiceAccount, and listens on loopback only.
// Nothing of it still runs when Stop has returned or this process has ended. Two processes never work in one folder. The cluster
// has no nodes, no scheduler and no workload controllers: it stores pods, but nothing runs them.
package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"

	"go.etcd.io/etcd/server/v3/embed"

	"sluice.dev/localcluster/internal/component"
	"sluice.dev/localcluster/internal/pki"
)

// grace is the time that a component gets to end by itself. The data is safe in etcd, so killing it later loses nothing.
const grace = 15 * time.Second

// Options describe the cluster to start. The zero value of each field but Executable, Now and Note is usable.
type Options struct {
	// Dir is the absolute path of the folder that keeps everything between runs. Start creates it if it is missing. Empty means a
	// temporary folder, which Stop removes.
	Dir string
	// Kubeconfig is the absolute path of the administrator's kubeconfig; empty means a file named kubeconfig in the folder.
	Kubeconfig string
	// Port is the API server's port on 127.0.0.1; zero means a free one.
	Port int
	// APIServerArgs are further flags for the API server, each as name=value.
	APIServerArgs []string
	// NoFsync has etcd not wait for the disk: faster, but a crash of the machine (not of the processes) may lose data. A
	// temporary folder always does so.
	NoFsync bool
	// WithoutControllers leaves the controller manager out. Then nothing creates default ServiceAccounts.
	WithoutControllers bool

	// Executable is the binary that runs a component as a child: it is called as "EXECUTABLE component NAME -- FLAGS".
	Executable string
	// Now is the clock for making and checking certificates.
	Now func() time.Time
	// Note receives remarks that need no reaction, one line each.
	Note func(string)
}

// Cluster is a cluster that was started.
type Cluster struct {
	// Dir is the folder that holds the cluster; Kubeconfig the administrator's kubeconfig; Server the API server's URL.
	Dir, Kubeconfig, Server string

	folder    *folder
	etcd      *embed.Etcd
	processes []*process
	// kubeconfig is the content that was written to Kubeconfig; nil before.
	kubeconfig []byte
	ready      bool
	// alive ends, with its cause, when a component does.
	alive context.Context
	fail  context.CancelCauseFunc
}

// Start starts a cluster and returns when it is ready. It changes this process's working directory to the cluster's folder; the
// children use the same one. If ctx ends before that, or anything fails, Start stops and removes everything again. The error says
// in one line what happened.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	extra, err := parseAPIServerArgs(o.APIServerArgs)
	if err != nil {
		return nil, err
	}
	f, err := openFolder(o.Dir, o.Note)
	if err != nil {
		return nil, err
	}
	if err := os.Chdir(f.dir); err != nil {
		return nil, errors.Join(fmt.Errorf("--dir: %w", err), f.close())
	}
	c := &Cluster{Dir: f.dir, folder: f, Kubeconfig: o.Kubeconfig}
	c.alive, c.fail = context.WithCancelCause(context.WithoutCancel(ctx))
	c.Kubeconfig = cmp.Or(c.Kubeconfig, f.path("kubeconfig"))
	if err := c.start(ctx, o, extra); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

// start launches the parts and waits until they answer. The caller stops what was started if it fails.
func (c *Cluster) start(ctx context.Context, o Options, extra []flag) error {
	listener, err := listen(ctx, o.Port)
	if err != nil {
		return err
	}
	creds, err := c.launch(ctx, o, extra, listener)
	// The child has its own descriptor of the socket. This process closes its copy, so that the port is free as soon as the child
	// is gone.
	if err := errors.Join(err, listener.Close()); err != nil {
		return err
	}
	if err := c.awaitReady(ctx, o, creds); err != nil {
		return err
	}
	c.ready = true
	return nil
}

// launch starts etcd and the API server, and writes the kubeconfig.
func (c *Cluster) launch(ctx context.Context, o Options, extra []flag, listener *net.TCPListener) (credentials, error) {
	address := listener.Addr().String()
	c.Server = "https://" + address
	creds, err := issue(c.folder.path("pki"), o.Now())
	if err != nil {
		return creds, fmt.Errorf("--dir: %w", err)
	}
	content, err := kubeconfig(c.Server, creds.ca, creds.admin, "admin")
	if err != nil {
		return creds, err
	}
	if err := writeKubeconfig(c.Kubeconfig, content); err != nil {
		return creds, err
	}
	c.kubeconfig = content

	if c.etcd, err = startEtcd(ctx, c.folder, o.NoFsync || c.folder.temporary); err != nil {
		return creds, err
	}
	go c.watchEtcd()
	socket, err := listener.File()
	if err != nil {
		return creds, err
	}
	defer socket.Close() //nolint:errcheck // the child has its own
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return creds, err
	}
	return creds, c.spawn(o.Executable, component.APIServer, apiServerFlags(creds, port, extra), socket)
}

// awaitReady waits for the API server, starts the controller manager, and waits for the first object that
// only controllers make. It ends early if a component ends, with the reason of that.
func (c *Cluster) awaitReady(ctx context.Context, o Options, creds credentials) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	//nolint:contextcheck // the two contexts have no common parent: one ends with the caller, one with a component
	defer context.AfterFunc(c.alive, func() { cancel(context.Cause(c.alive)) })()

	probe, err := newProber(c.Server, creds.ca, creds.admin)
	if err != nil {
		return err
	}
	defer probe.close()
	if err := probe.await(ctx, "/readyz", "/api/v1/namespaces/default"); err != nil || o.WithoutControllers {
		return err
	}
	// The controller manager looks for the API server only once a second, so it starts after the API server.
	content, err := kubeconfig(c.Server, creds.ca, creds.controllers, component.ControllerManager)
	if err != nil {
		return err
	}
	path := c.folder.path("controller-manager.kubeconfig")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		return err
	}
	if err := c.spawn(o.Executable, component.ControllerManager, controllerManagerFlags(creds, path)); err != nil {
		return err
	}
	return probe.await(ctx, "/api/v1/namespaces/default/serviceaccounts/default")
}

// spawn starts a component and reports it as a failure if it ends before it is asked to.
func (c *Cluster) spawn(executable, name string, flags []string, extra ...*os.File) error {
	log, hint := c.folder.log(name), "use --dir to keep its log"
	if !c.folder.temporary {
		hint = "see " + log
	}
	p, err := spawn(executable, name, flags, log, extra...)
	if err != nil {
		return err
	}
	c.processes = append(c.processes, p)
	go func() {
		<-p.done
		c.fail(p.failure(hint))
	}()
	return nil
}

// watchEtcd reports the end of etcd, which runs in this process, like that of a child.
func (c *Cluster) watchEtcd() {
	select {
	case err, open := <-c.etcd.Err():
		if open {
			c.fail(fmt.Errorf("etcd ended: %w", err))
		}
	case <-c.etcd.Server.StopNotify():
	}
	c.fail(errors.New("etcd ended"))
}

// Failed is closed when a component ends, by itself or by Stop. If it ended by itself, the others still run: call Stop.
func (c *Cluster) Failed() <-chan struct{} { return c.alive.Done() }

// Err says which component ended first, and why, after Failed is closed; nil before.
func (c *Cluster) Err() error { return context.Cause(c.alive) }

// Stop stops every component after its clients, and removes temporary files. It returns when all of it is gone. It must be called
// once.
func (c *Cluster) Stop() error {
	for _, p := range slices.Backward(c.processes) {
		p.stop(grace)
	}
	if c.etcd != nil {
		c.etcd.Close()
	}
	var err error
	if c.kubeconfig != nil && (c.folder.temporary || !c.ready) {
		err = removeKubeconfig(c.Kubeconfig, c.kubeconfig)
	}
	return errors.Join(err, c.folder.close())
}

// listen takes the port before the API server exists, so that the address is known for certificates and
// kubeconfig. Port 0 takes a free one.
func listen(ctx context.Context, port int) (*net.TCPListener, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("--port: 127.0.0.1:%d is taken by another process", port)
	case err != nil:
		return nil, fmt.Errorf("--port: %w", err)
	}
	tcp, ok := listener.(*net.TCPListener)
	if !ok {
		return nil, errors.Join(fmt.Errorf("--port: %T is no TCP listener", listener), listener.Close())
	}
	return tcp, nil
}

// issue makes or reads all keys and certificates. The serving certificate names loopback, localhost and
// the address of the Service kubernetes.
func issue(dir string, now time.Time) (credentials, error) {
	authority, err := pki.Open(dir, now)
	if err != nil {
		return credentials{}, err
	}
	c := credentials{ca: authority.CA()}
	for _, want := range []struct {
		pair *pki.Pair
		leaf pki.Leaf
	}{
		{&c.server, pki.Leaf{
			Name: "apiserver", CommonName: "kube-apiserver",
			DNSNames: []string{"localhost", "kubernetes.default.svc"},
			IPs:      []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(10, 96, 0, 1)},
		}},
		{&c.admin, pki.Leaf{Name: "admin", CommonName: "admin", Groups: []string{"system:masters"}}},
		{&c.controllers, pki.Leaf{Name: "controller-manager", CommonName: "system:kube-controller-manager"}},
	} {
		if *want.pair, err = authority.Leaf(want.leaf); err != nil {
			return credentials{}, err
		}
	}
	c.saPrivate, c.saPublic, err = authority.SigningKey("service-account")
	return c, err
}

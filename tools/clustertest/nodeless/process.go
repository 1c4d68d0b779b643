package nodeless

// How is a role of Sluice run and asked as a process? It is started with its flags, ready when its own check
// says so, and ended as the kubelet ends a container.

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"sluice.dev/internal/limit"
	"sluice.dev/tools/clustertest"
)

const (
	// pause is how long is waited before something is looked at again.
	pause = 50 * time.Millisecond
	// patience bounds how long a process takes to become ready, and to end.
	patience = 6 * time.Minute
	// maxAnswer bounds, in bytes, what is read of an answer.
	maxAnswer = 64 << 20
)

// Process is a running sluice serve.
type Process struct {
	// Name is that of its Pod.
	Name string
	// Listen is the address of its health checks and metrics.
	Listen string

	cmd   *exec.Cmd
	log   clustertest.Output
	ended chan struct{}
}

// Launch starts a command that serves its health checks at an address. Stop or Kill must end it.
// The process is not bound to a context: its end is part of what tests look at.
func Launch(name, listen string, cmd *exec.Cmd) (*Process, error) {
	p := &Process{Name: name, Listen: listen, cmd: cmd, ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &p.log, &p.log
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.ended)
		_ = cmd.Wait() // ProcessState has the result
	}()
	return p, nil
}

// Ready waits until the process is ready.
// It fails at once if the process has ended, with all that it has logged.
func (p *Process) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		_, err := p.Get(ctx, "/readyz")
		if err == nil {
			return nil
		}
		select {
		case <-p.ended:
			return p.endedError()
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w: %s", p.Name, err, p.Log())
		case <-time.After(pause):
		}
	}
}

// Get reads a path of the process's own server. An answer other than 200 is an error.
func (p *Process) Get(ctx context.Context, path string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.Listen+path, nil)
	if err != nil {
		return "", err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close() //nolint:errcheck // it was only read
	body, err := limit.ReadAll(answer.Body, maxAnswer)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = errors.New(string(body))
	}
	return string(body), err
}

// PID is the id of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Log is what the process has written.
func (p *Process) Log() string { return p.log.String() }

// Ended is closed when the process has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Over tells that the process has ended.
func (p *Process) Over() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

func (p *Process) endedError() error {
	return fmt.Errorf("%s ended with %s: %s", p.Name, p.cmd.ProcessState, p.Log())
}

// Stop ends the process as the kubelet does, and by force if it does not end.
// An exit code other than 0 is an error: sluice serve ends well when it is told to.
func (p *Process) Stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-p.ended:
	case <-time.After(patience):
		p.Kill()
		return fmt.Errorf("%s did not end within %s", p.Name, patience)
	}
	if p.cmd.ProcessState.ExitCode() != 0 {
		return p.endedError()
	}
	return nil
}

// Kill ends the process by force, if it still runs.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.ended
}

// Kubeconfig writes a file that authenticates as a ServiceAccount at the API server of a configuration.
// The token is valid for an hour, the default of the API server, which is longer than a test takes.
func Kubeconfig(ctx context.Context, client kubernetes.Interface, config *rest.Config, namespace, account, file string) error {
	token, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	return clientcmd.WriteToFile(clientcmdapi.Config{
		CurrentContext: "c", Contexts: map[string]*clientcmdapi.Context{"c": {Cluster: "c", AuthInfo: "u"}},
		Clusters:  map[string]*clientcmdapi.Cluster{"c": {Server: config.Host, CertificateAuthorityData: config.CAData, CertificateAuthority: config.CAFile}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"u": {Token: token.Status.Token}},
	}, file)
}

// FreeAddress is an address of this machine, host:port, where nothing listens. It lies below the ports that systems give to clients
// (32768 on Linux): a client of another test would take it before its server does.
func FreeAddress(ctx context.Context) (string, error) {
	const lowest, ports, tries = 10000, 22000, 100
	var last error
	for range tries {
		var config net.ListenConfig
		l, err := config.Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(lowest+rand.IntN(ports)))) //nolint:gosec // not a secret
		if err == nil {
			return l.Addr().String(), l.Close()
		}
		last = err
	}
	return "", last
}

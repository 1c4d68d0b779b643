package cluster

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"sluice.dev/localcluster/internal/component"
)

// process is a child of this process that runs one component.
type process struct {
	name string
	log  string
	cmd  *exec.Cmd
	// lifeline is the write end of the child's stdin. Nobody writes to it. The child ends when it is closed, and the kernel closes
	// it when this process ends for any reason.
	lifeline io.Closer
	done     chan struct{}
}

// spawn starts the executable with the component sub-command. Its output goes to the log file, which is emptied first. The child
// inherits extra files from descriptor 3 on, and ends when this process does.
func spawn(executable, name string, args []string, log string, extra ...*os.File) (*process, error) {
	output, err := os.OpenFile(log, os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o600) //nolint:gosec // a file in the cluster's folder
	if err != nil {
		return nil, err
	}
	defer output.Close() //nolint:errcheck // the child has its own
	stdin, lifeline, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer stdin.Close() //nolint:errcheck // the child has its own

	cmd := exec.Command(executable, append([]string{"component", name, "--"}, args...)...) //nolint:gosec // this very binary
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, output, output
	cmd.ExtraFiles = extra
	// A group of its own keeps a terminal's Ctrl-C from the child. This process stops its children in order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	component.EndWithParent(cmd.SysProcAttr)

	p := &process{name: name, log: log, cmd: cmd, lifeline: lifeline, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// Linux ties the child's life to the thread that started it, so that thread must live as long as the child.
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // cmd.ProcessState has the result
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", name, err), lifeline.Close())
	}
	return p, nil
}

// stop asks the child to end and returns when it has. After the grace time it kills the child.
func (p *process) stop(grace time.Duration) {
	defer p.lifeline.Close() //nolint:errcheck // the child has ended by then
	// An error means that the child has ended. done has the details.
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
		return
	case <-timer.C:
	}
	_ = p.cmd.Process.Kill()
	<-p.done
}

// failure describes in one line why a child ended without being asked; call it after done is closed. The hint names the log, in
// case its end gives no reason.
func (p *process) failure(hint string) error {
	state := p.cmd.ProcessState.String()
	if words := lastWords(p.log); words != "" {
		return fmt.Errorf("%s ended (%s): %s", p.name, state, words)
	}
	return fmt.Errorf("%s ended (%s), %s", p.name, state, hint)
}

package apptest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// Frameworks are the example servers by name. The first is the reference for the others.
var Frameworks = []string{"nethttp", "chi", "gin", "echo", "echo5"}

var programs string // the folder of the built servers, set by Main

// Main runs the tests of a package that starts example servers, and removes what [Start] has built.
func Main(m *testing.M) {
	dir, err := os.MkdirTemp("", "examples")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	programs = dir
	code := m.Run()
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

// build builds all servers, once for a test program.
var build = sync.OnceValue(func() error {
	args := []string{"build", "-o", programs + string(filepath.Separator)}
	for _, name := range Frameworks {
		args = append(args, "github.com/sashlimit/sash/examples/"+name)
	}
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w: %s", err, out)
	}
	return nil
})

// Process is an example server that runs as a program of its own.
type Process struct {
	Name, Addr string

	cmd     *exec.Cmd
	read    chan struct{} // closed when the log has been read to its end
	stopped bool

	mu  sync.Mutex
	log []string
}

// limited runs a program with at most 4 GiB of address space, where the system can bound it: a server that can be made
// to ask for too much must end alone, not with the machine.
const limited = `ulimit -v 4194304 2>/dev/null; exec "$0" "$@"`

// Start starts the example of a framework on a free port of 127.0.0.1. The test's cleanup stops the process. The
// package's TestMain must call [Main].
func Start(t testing.TB, name string, args ...string) *Process {
	t.Helper()
	if err := build(); err != nil {
		t.Fatal(err)
	}
	p := &Process{Name: name, read: make(chan struct{})}
	args = append([]string{"-c", limited, filepath.Join(programs, name), "-addr", "127.0.0.1:0"}, args...)
	p.cmd = exec.Command("sh", args...)
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Stop(t) })
	lines := bufio.NewReader(stderr)
	var entry struct{ Msg, Addr string }
	for entry.Msg != "listening" { // before it, there may be warnings about Redis
		line, err := lines.ReadString('\n')
		p.log = append(p.log, line)
		if err != nil {
			close(p.read)
			t.Fatalf("%s does not listen: %q", name, p.log)
		}
		_ = json.Unmarshal([]byte(line), &entry) // not of a line of go-redis
	}
	p.Addr = entry.Addr
	go func() {
		defer close(p.read)
		for {
			line, err := lines.ReadString('\n')
			if line != "" {
				p.mu.Lock()
				p.log = append(p.log, line)
				p.mu.Unlock()
			}
			if err != nil {
				return
			}
		}
	}()
	return p
}

// Stop ends the server and checks that it ends well. It does nothing the second time.
func (p *Process) Stop(t testing.TB) {
	t.Helper()
	if p.stopped {
		return
	}
	p.stopped = true
	_ = p.cmd.Process.Signal(os.Interrupt)
	<-p.read
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("%s ended with %v", p.Name, err)
	}
}

// Pid returns the number of the process.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Log returns what the server has written to its standard error after the line that tells its address, one string for
// each line with its end. The log is complete after Stop.
func (p *Process) Log() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log[:len(p.log):len(p.log)]
}

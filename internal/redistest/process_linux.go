package redistest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// launcher returns a channel of functions, which run on one OS thread that lives
// as long as this process.
//
// The kernel sends a child its parent-death signal when the thread that started
// the child ends, even if the process goes on. The Go runtime ends a thread when
// a goroutine that is locked to it returns, so a child of another thread might
// be killed too early. The goroutine of the launcher never returns.
var launcher = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range work {
			f()
		}
	}()
	return work
})

// Launch starts cmd so that the kernel kills it when this process ends. Cleanups
// are not enough: they do not run when a test binary is killed or panics on its
// timeout.
func Launch(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	err := make(chan error)
	launcher() <- func() { err <- cmd.Start() }
	return <-err
}

// stopped reports whether the process is stopped by a signal, or gone.
func stopped(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true // gone: nothing to wait for
	}
	// The file holds "pid (name) state ...", and a name may contain parentheses.
	i := bytes.LastIndexByte(stat, ')')
	return i >= 0 && bytes.HasPrefix(stat[i:], []byte(") T"))
}

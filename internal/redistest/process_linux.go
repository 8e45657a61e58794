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

// launcher runs functions on one OS thread that lives as long as this process.
//
// The kernel sends a child its parent-death signal when the thread that
// started it ends, not the process. The Go runtime ends a thread when a
// goroutine that is locked to it returns, so a child of any other thread might
// be killed too early. This goroutine never returns.
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

// launch starts cmd so that it dies with this process, however that ends:
// cleanups do not run when a test binary is killed or panics on its timeout.
func launch(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	err := make(chan error)
	launcher() <- func() { err <- cmd.Start() }
	return <-err
}

// stopped says whether the process is stopped by a signal.
func stopped(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true // gone: nothing to wait for
	}
	// "pid (name) state ...", and the name may hold anything.
	i := bytes.LastIndexByte(stat, ')')
	return i >= 0 && bytes.HasPrefix(stat[i:], []byte(") T"))
}

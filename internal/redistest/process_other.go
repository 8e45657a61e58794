//go:build !linux

package redistest

import "os/exec"

// launch starts cmd. Servers outlive a test binary that is killed: only Linux
// ends a process with its parent.
func launch(cmd *exec.Cmd) error { return cmd.Start() }

// stopped supposes that a signal takes effect at once: there is no portable way
// to ask.
func stopped(int) bool { return true }

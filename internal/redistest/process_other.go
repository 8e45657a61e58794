//go:build !linux

package redistest

import "os/exec"

// Launch starts cmd. Only Linux ends a process with its parent, so here servers
// outlive a test binary that is killed.
func Launch(cmd *exec.Cmd) error { return cmd.Start() }

// stopped always returns true: there is no portable way to ask whether a process
// is stopped, so a signal is taken to have its effect at once.
func stopped(int) bool { return true }

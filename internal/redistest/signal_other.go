//go:build !unix

package redistest

import "os"

// sigStop and sigCont are placeholders: this system has no signal that stops a
// process, so Pause and Resume fail the test.
var sigStop, sigCont os.Signal = os.Interrupt, os.Interrupt

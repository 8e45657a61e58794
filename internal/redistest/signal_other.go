//go:build !unix

package redistest

import "os"

// Nothing stops a process here; Pause and Resume fail the test.
var sigStop, sigCont os.Signal = os.Interrupt, os.Interrupt

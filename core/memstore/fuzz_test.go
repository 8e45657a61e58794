package memstore_test

import (
	"time"

	"github.com/sashlimit/sash/core"
)

// choices are the fuzzer's bytes, each of which decides something.
type choices []byte

// next returns a choice from 0 to n-1, for n up to 256. It is 0 if no bytes are left.
func (c *choices) next(n int) int {
	if len(*c) == 0 {
		return 0
	}
	choice := int((*c)[0]) % n
	*c = (*c)[1:]
	return choice
}

// limits returns one to three limits, with windows from 1 ms to 37 hours.
func (c *choices) limits() []core.Limit {
	limits := make([]core.Limit, 1+c.next(3))
	for i := range limits {
		window := core.MinWindow<<c.next(28) + time.Duration(c.next(256))*time.Microsecond
		limits[i] = core.Per(1+int64(c.next(12)), window).Named(key("l", i)).Using(algorithms[c.next(2)])
	}
	return limits
}

// wait returns a time to wait after a decision: none, a part of a window, a window, the
// time after which the decision said to come again, or a microsecond more or less than
// such a time.
func (c *choices) wait(limits []core.Limit, last core.Decision) time.Duration {
	window := limits[c.next(len(limits))].Window
	waits := [...]time.Duration{
		0, time.Microsecond, window / 7, window / 2, window, 2 * window, last.RetryAfter, last.ResetAfter,
	}
	wait := waits[c.next(len(waits))]
	if wait == core.Never {
		wait = window
	}
	wait += time.Duration(c.next(3)-1) * time.Microsecond
	return max(0, wait).Truncate(time.Microsecond)
}

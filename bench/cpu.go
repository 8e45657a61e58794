package bench

import (
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// cpuTime holds how long processors have worked for a process, in its own code and in the kernel for it.
type cpuTime struct{ User, System time.Duration }

// less returns the time since before.
func (c cpuTime) less(before cpuTime) cpuTime {
	return cpuTime{c.User - before.User, c.System - before.System}
}

// sum returns both parts.
func (c cpuTime) sum() time.Duration { return c.User + c.System }

// ownCPU returns the time of this process.
func ownCPU() (cpuTime, error) {
	var u syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return cpuTime{time.Duration(u.Utime.Nano()), time.Duration(u.Stime.Nano())}, err
}

// tellCPU answers each order with ownCPU, until there are no more.
func tellCPU(orders *json.Decoder, answers *json.Encoder) error {
	for {
		var o order
		if err := orders.Decode(&o); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		c, err := ownCPU()
		if err != nil {
			return err
		}
		if err := answers.Encode(c); err != nil {
			return err
		}
	}
}

// cpu asks the site's process for its time.
func (s *site) cpu() (c cpuTime, err error) {
	if err = s.process.orders.Encode(order{}); err == nil {
		err = s.process.answers.Decode(&c)
	}
	return c, err
}

// cpu asks a server of Redis for its time.
func (w *wire) cpu() (c cpuTime, err error) {
	info, err := w.do("INFO", "cpu")
	if err != nil {
		return c, err
	}
	text, _ := info.(string)
	seconds := func(name string) time.Duration {
		s, bad := strconv.ParseFloat(strings.TrimSpace(field(text, name)), 64)
		err = errors.Join(err, bad)
		return time.Duration(s * float64(time.Second))
	}
	c = cpuTime{seconds("used_cpu_user"), seconds("used_cpu_sys")}
	return c, err
}

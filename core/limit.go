package core

import (
	"fmt"
	"math"
	"math/bits"
	"strings"
	"time"
)

// Bounds of a Window, the Config.Timeout that 0 stands for, and the RetryAfter of a cost above a limit.
const (
	MinWindow      = time.Millisecond
	MaxWindow      = 366 * 24 * time.Hour
	DefaultTimeout = 100 * time.Millisecond

	Never time.Duration = math.MaxInt64
)

const maxNameLength = 64 // bytes, for the names of limits, rules and limiters

// Limit allows Requests units per Window. A unit is a request of cost 1. The zero Algorithm is [SlidingLog]. An empty
// Name means the window in words, "1m0s", and of a [Bucket] "bucket". Window is from [MinWindow] to [MaxWindow], and
// rounded up to whole microseconds. In JSON, YAML and flags it is text; see [ParseLimit].
type Limit struct {
	Name      string
	Requests  int64
	Window    time.Duration
	Algorithm Algorithm
}

// Per returns a limit of n requests in any window of the given length.
func Per(n int64, window time.Duration) Limit { return Limit{Requests: n, Window: window} }

// PerSecond returns a limit of n requests in any second.
func PerSecond(n int64) Limit { return Per(n, time.Second) }

// PerMinute returns a limit of n requests in any minute.
func PerMinute(n int64) Limit { return Per(n, time.Minute) }

// PerHour returns a limit of n requests in any hour.
func PerHour(n int64) Limit { return Per(n, time.Hour) }

// PerDay returns a limit of n requests in any 24 hours.
func PerDay(n int64) Limit { return Per(n, 24*time.Hour) }

// RateAndBurst returns a limit by a [Bucket]: burst requests at once, then evenly rate in each per.
//
//	RateAndBurst(10, time.Second, 20) // 20 at once, then 10 a second: Per(20, 2*time.Second).Using(Bucket)
//
// With another rate or burst it goes on with what is owed; two in one rule need names.
// Its Window is burst*per/rate, rounded up to whole microseconds. What is not positive, or leads to a Window that no
// limit has, is an error of [New].
func RateAndBurst(rate int64, per time.Duration, burst int64) Limit {
	l := Limit{Requests: burst, Window: min(per, 0), Algorithm: Bucket}
	if rate > 0 && per > 0 && burst > 0 {
		l.Window = refillTime(rate, per, burst)
	}
	if l.Window < MinWindow || l.Window > MaxWindow {
		l.Name = fmt.Sprintf("rate %d in %v, burst %d", rate, per, burst) // for the error
	}
	return l
}

// refillTime returns burst*per/rate, rounded up to whole microseconds, or the longest Duration if that is longer.
func refillTime(rate int64, per time.Duration, burst int64) time.Duration {
	high, low := bits.Mul64(uint64(burst), uint64(per))
	low, carry := bits.Add64(low, uint64(rate-1), 0)
	if high += carry; high >= uint64(rate) {
		return math.MaxInt64
	}
	window, _ := bits.Div64(high, low, uint64(rate))
	return time.Duration((min(window, math.MaxInt64-999) + 999) / 1000 * 1000) // a microsecond has 1000
}

// Using returns the limit by another algorithm.
func (l Limit) Using(a Algorithm) Limit { l.Algorithm = a; return l }

// Named returns the limit with another name. It stands in headers, and a limit that is renamed starts afresh.
func (l Limit) Named(name string) Limit { l.Name = name; return l }

// checkLimits returns a copy of limits with every name filled in and every window in
// whole microseconds, or an error with the given and the allowed values, and code to write instead.
func checkLimits(limits []Limit) ([]Limit, error) {
	if len(limits) == 0 {
		return nil, fmt.Errorf("sash: no limits: give at least one, such as core.PerMinute(100)")
	}
	checked := make([]Limit, len(limits))
	for i, l := range limits {
		l, err := l.complete()
		if err != nil {
			return nil, err
		}
		for _, other := range checked[:i] {
			if other.Name == l.Name {
				return nil, fmt.Errorf("sash: two limits are named %q: names are part of a count's identity and "+
					"must differ; give one another name with Named, such as %v.Named(\"burst\")", l.Name, l.goCode())
			}
		}
		checked[i] = l
	}
	return checked, nil
}

// complete returns the limit with its name filled in and its window in whole microseconds,
// or an error if it is invalid.
func (l Limit) complete() (Limit, error) {
	l = l.roundWindow()
	if l.Name == "" {
		l.Name = l.defaultName()
	}
	return l, l.check()
}

// roundWindow returns the limit with its window in whole microseconds.
func (l Limit) roundWindow() Limit {
	if part := l.Window % time.Microsecond; part > 0 && l.Window > MinWindow && l.Window < MaxWindow {
		l.Window += time.Microsecond - part
	}
	return l
}

// defaultName returns the name that an empty one means.
func (l Limit) defaultName() string {
	if l.Algorithm.isKnown() && l.Algorithm.IsLinear() {
		return l.Algorithm.String()
	}
	return l.Window.String()
}

// check returns an error if the limit is invalid. Its name must be filled in.
func (l Limit) check() error {
	// The window is checked before the name: a name made of a window below a
	// millisecond is not ASCII, and an error about it would mislead.
	if l.Window < MinWindow || l.Window > MaxWindow {
		return fmt.Errorf("sash: limit %.66q has a window of %v: a window is from %v to %v (366 days)%s",
			l.Name, l.Window, MinWindow, MaxWindow, l.windowHint())
	}
	if err := checkName("limit", l.Name); err != nil {
		return err
	}
	if l.Requests <= 0 {
		return fmt.Errorf("sash: limit %q allows %d requests: at least 1 is needed; "+
			"to refuse everybody, do not mount the handler", l.Name, l.Requests)
	}
	return l.checkAlgorithm()
}

// checkAlgorithm returns an error if the algorithm is unknown, or holds fewer than Requests.
func (l Limit) checkAlgorithm() error {
	if !l.Algorithm.isKnown() {
		return fmt.Errorf("sash: limit %q has algorithm %d: use a constant, such as core.%s",
			l.Name, uint8(l.Algorithm), algorithms[0].constant)
	}
	p := l.Algorithm.properties()
	if l.Requests <= p.maxRequests {
		return nil
	}
	hint := " (2^40)"
	if p.maxRequests < MaxCounterRequests {
		hint = fmt.Sprintf("; use %v.Using(core.CoarseLog), or core.SlidingCounter, which hold up to %d",
			l.goCode(), int64(MaxCounterRequests))
	}
	return fmt.Errorf("sash: limit %q allows %d requests: a %s holds at most %d%s",
		l.Name, l.Requests, p.constant, p.maxRequests, hint)
}

// windowHint returns the likely cause of an invalid window, for errors.
func (l Limit) windowHint() string {
	if l.Window == math.MinInt64 {
		return "; this one is a float that no Duration holds, such as a second divided by a rate of 0"
	}
	if l.Algorithm.isKnown() && l.Algorithm.IsLinear() {
		return "; that of a RateAndBurst is burst*per/rate, of three numbers above 0"
	}
	return ""
}

// goCode returns the limit as a program writes it, for error messages. The algorithm
// must have been checked.
func (l Limit) goCode() string {
	code := fmt.Sprintf("core.Per(%d, %d /* %v */)", l.Requests, int64(l.Window), l.Window)
	if l.Algorithm != (Limit{}).Algorithm {
		code += ".Using(core." + l.Algorithm.properties().constant + ")"
	}
	return code
}

// checkName returns an error unless name can stand unescaped in a quoted string of
// a structured field (RFC 9651), and at the end of a limit's text: printable ASCII without
// the quote and the backslash, and without blanks around it. kind is the word for the thing that has the name,
// such as limit.
func checkName(kind, name string) error {
	if len(name) > maxNameLength {
		return fmt.Errorf("sash: the %s name %.20q... has %d bytes: at most %d are allowed",
			kind, name, len(name), maxNameLength)
	}
	if i := strings.IndexFunc(name, func(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' }); i >= 0 {
		return fmt.Errorf("sash: the %s name %q cannot stand in a header because of byte %d: "+
			"use printable ASCII without quotes and backslashes", kind, name, i)
	}
	if strings.Trim(name, " ") != name {
		return fmt.Errorf("sash: the %s name %q begins or ends with a blank: leave the blank out", kind, name)
	}
	return nil
}

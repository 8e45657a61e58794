package nethttp

import (
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/headers"
)

// known holds every format that a guard of this process writes, once per set of
// names. A guard inside another has to find and remove what the outer one
// wrote, in whatever format, and all that it sees of it is the response's
// header.
var known struct {
	sync.Mutex // held to add
	formats    atomic.Pointer[[]knownFormat]
}

type knownFormat struct {
	headers.Format
	names []string
}

func init() { known.formats.Store(new([]knownFormat)) }

func register(f headers.Format) {
	known.Lock()
	defer known.Unlock()
	formats := *known.formats.Load()
	names := slices.Clone(f.Names())
	if slices.ContainsFunc(formats, func(k knownFormat) bool { return slices.Equal(k.names, names) }) {
		return
	}
	formats = append(slices.Clip(formats), knownFormat{f, names})
	known.formats.Store(&formats)
}

// setLimitFields writes the fields of d, if its limit is known, and removes those
// of an outer guard, unless the outer limit is the tighter one. The memory is for
// a Classic format's; without one it gets its own.
func (g *Decider) setLimitFields(h http.Header, d *core.Decision, memory *headers.ClassicMemory) {
	if d.Limit.Requests == 0 || d.Allowed && g.classic == nil && len(g.write) == 0 {
		return
	}
	if len(h) > 0 && !giveWay(h, d) {
		return
	}
	if g.classic != nil {
		if memory == nil {
			memory = new(headers.ClassicMemory)
		}
		g.classic.Write(h, d, memory)
	}
	for _, write := range g.write {
		write(h, *d)
	}
}

// giveWay makes the fields of an outer guard, if there are any, give way to
// those of d, or says that they stay.
func giveWay(h http.Header, d *core.Decision) bool {
	formats := *known.formats.Load()
	for i := range formats {
		remaining, reset, ok := formats[i].Read(h, d.At)
		if !ok {
			continue
		}
		if d.Allowed && !tighter(d, remaining, reset) {
			return false
		}
		removeLimitFields(h, formats)
		break
	}
	return true
}

// tighter is the rule by which core.Decision names the limit that binds. reset
// is rounded up to seconds, which does not matter to the comparison: the
// outer limit is first in a tie.
func tighter(d *core.Decision, remaining int64, reset time.Duration) bool {
	if d.Remaining != remaining {
		return d.Remaining < remaining
	}
	return d.ResetAfter > reset
}

func removeLimitFields(h http.Header, formats []knownFormat) {
	for _, f := range formats {
		for _, name := range f.names {
			delete(h, name)
		}
	}
}

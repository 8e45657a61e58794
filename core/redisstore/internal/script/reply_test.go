package script

import (
	"errors"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/sashlimit/sash/core"
)

// What the tests of package script_test read values by.
var Nearest, Uint48, Uint24 = nearest, uint48, uint24

// readers are rules of each algorithm, and of one with all of them twice.
func readers() []*Rule {
	var all []*Rule
	var several []core.Limit
	for _, a := range core.Algorithms() {
		limit := core.PerMinute(1).Using(a)
		several = append(several, limit, core.Per(core.MaxLogRequests, core.MaxWindow).Using(a))
		all = append(all, &Rule{Binding: core.Binding{Limits: []core.Limit{limit}}})
	}
	return append(all, &Rule{Binding: core.Binding{Limits: several}, Delay: 1_000_000})
}

// checkRead fails the test unless a decision or an error is one that reading may give for any reply.
func checkRead(t *testing.T, reply string, d core.Decision, err error) {
	t.Helper()
	switch {
	case err != nil:
		if d != (core.Decision{}) {
			t.Fatalf("%.200q: %+v with the error %v", reply, d, err)
		}
		if n := len(err.Error()); n > 2*MaxErrorText {
			t.Fatalf("%.200q: an error of %d bytes", reply, n)
		}
		own := errors.Is(err, ErrCorrupt) || errors.Is(err, ErrMismatch) || errors.Is(err, ErrReply)
		if !own && !strings.ContainsRune(reply, 'E') { // E begins an error of Redis
			t.Fatalf("%.200q: the error %.200v", reply, err)
		}
	case d.Remaining < 0 || d.Limit == core.Limit{} || d.Allowed && d.RetryAfter != 0:
		t.Fatalf("%.200q: %+v", reply, d)
	}
}

// FuzzReply: no reply, whatever server writes it, makes reading it panic or hang, whether it is for one request or
// for several. What cannot be read is ErrReply, and errors are short.
func FuzzReply(f *testing.F) {
	const entry = "\x5c\x00\x86\x0e\xa6\x20\x00\x00\x01"
	const units = "\x00\x00\x01\x00\x00\x02"
	for _, reply := range []string{
		"", "1790000000 5", "1790000000 5A-", "1790000000 5A\xff", "1790000000 593790A-R-",
		"1790000000 5A" + units + entry[:6] + "R\xff",
		"1790000000 5R\xfe" + units + units + entry[:6],
		"1790000000 5A\xfe" + units + units,
		"1790000000 593790RS" + entry + entry,
		"1790000000 593790RMS" + entry + "L" + entry + "\x00\x00\x01-A-",
		"1790000000 593790RML" + entry + "\x00\x00\x01S" + entry + "S" + entry,
		"1790000000 5A" + entry + entry, "1790000000 5A--\xff\xff", "1790000000 5R-S" + entry + entry + "\xff\xff",
		"1790000000 5AC" + entry[:6] + units + "\x3b\x01", "1790000000 5RC" + entry[:6] + units + "\x00",
		"1790000000 5Fkey\nEerror\nA-", "999999999999999999 999999999999999999A-",
		"1790000000 5R\xfe" + strings.Repeat("\xff", 12) + entry[:6],
	} {
		f.Add(reply, int64(1))
		f.Add(reply, int64(math.MaxInt64))
	}
	all := readers()
	f.Fuzz(func(t *testing.T, reply string, cost int64) {
		cost = max(cost, 0)
		for _, r := range all {
			for _, charge := range []bool{true, false} {
				d, err := r.ReadAlone(reply, &core.Ask{Cost: cost, Peek: !charge}, nil)
				checkRead(t, reply, d, err)
			}
			now, rest, err := ReadTime(reply)
			for err == nil || !errors.Is(err, ErrReply) {
				var d core.Decision
				before := rest
				d, rest, err = r.Read(before, now, &core.Ask{Cost: cost}, nil)
				checkRead(t, before, d, err)
				switch {
				case errors.Is(err, ErrReply):
				case len(rest) >= len(before):
					t.Fatalf("%.200q: read nothing", before)
				case err == nil && d.Allowed != (before[0] == 'A'):
					t.Fatalf("%.200q: %+v", before, d)
				}
			}
		}
	})
}

// TestReplyTime: a time that Lua cannot hold exactly is no reply of a script.
func TestReplyTime(t *testing.T) {
	c := readers()[0]
	for _, time := range []string{"9007199254 740993", "999999999999 5", "1790000000 1000000"} {
		if d, err := c.ReadAlone(time+"A-", &core.Ask{Cost: 1}, nil); !errors.Is(err, ErrReply) {
			t.Errorf("the time %s: %+v, %v", time, d, err)
		}
	}
}

// TestReplyMemory: to read a large reply takes little memory, whatever it holds.
func TestReplyMemory(t *testing.T) {
	const size, times = 1 << 20, 200
	for _, part := range []string{"A", "F", "E", "S", "M", "-", "A-", "\xfe", "\xff", "9", "\n"} {
		for _, head := range []string{"", "1790000000 5", "1790000000 5F", "1790000000 5E", "1790000000 5AM"} {
			reply := head + strings.Repeat(part, size/len(part)) + "\n"
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for range times {
				for _, c := range readers() {
					_, err := c.ReadAlone(reply, &core.Ask{Cost: 1}, nil)
					checkRead(t, reply, core.Decision{}, err)
				}
			}
			runtime.ReadMemStats(&after)
			if n := (after.TotalAlloc - before.TotalAlloc) / times; n > size/8 {
				t.Errorf("%q and %q many times: reading takes %d bytes", head, part, n)
			}
		}
	}
}

// ReadAlone reads the script's reply to one request, as Read.
func (r *Rule) ReadAlone(reply string, a *core.Ask, uses []core.Usage) (core.Decision, error) {
	now, part, err := ReadTime(reply)
	if err != nil {
		return core.Decision{}, err
	}
	d, rest, err := r.Read(part, now, a, uses)
	if err == nil && rest != "" {
		return core.Decision{}, NotRead(reply)
	}
	return d, err
}

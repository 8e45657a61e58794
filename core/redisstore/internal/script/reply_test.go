package script

import (
	"errors"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
)

// readers are rules of each algorithm, and of one with all of them twice.
func readers() []*Rule {
	var all []*Rule
	var several []core.Limit
	for _, a := range core.Algorithms() {
		limit := core.PerMinute(1).Using(a)
		several = append(several, limit, core.Per(core.MaxLogRequests, core.MaxWindow).Using(a))
		all = append(all, &Rule{Binding: core.Binding{Limits: []core.Limit{limit}}})
	}
	return append(all, &Rule{Binding: core.Binding{Limits: several}, Ahead: 1_000_000})
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
		own := errors.Is(err, ErrForeign) || errors.Is(err, ErrDisagree) || errors.Is(err, ErrReply)
		if !own && !strings.ContainsRune(reply, 'E') { // E begins an error of Redis
			t.Fatalf("%.200q: the error %.200v", reply, err)
		}
	case d.Remaining < 0 || d.Limit == core.Limit{} || d.Allowed && d.RetryAfter != 0:
		t.Fatalf("%.200q: %+v", reply, d)
	case !waits(d.ResetAfter, d.Limit) || !waits(d.RetryAfter, d.Limit) && d.RetryAfter != core.Never:
		t.Fatalf("%.200q: a wait that cannot be: %+v", reply, d)
	}
}

// waits reports whether a client can have to wait so long under a limit: a counter forgets after two windows, of which
// the second may begin an eighth of one ahead of the clock, and a slot is a sixtieth.
func waits(wait time.Duration, l core.Limit) bool { return wait >= 0 && wait <= 2*l.Window+l.Window/4 }

// FuzzReply: no reply, whatever server writes it, makes reading it panic or hang, whether it is for one request or
// for several. What cannot be read is ErrReply, what a limit cannot have is ErrForeign, and errors are short.
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

// TestReplyImpossible: times and units that a limit cannot have are foreign, for a decision, a peek and a Usage. What
// it can have at most is not.
func TestReplyImpossible(t *testing.T) {
	const second = 1_000_000
	const now, w, slot = 1_790_000_000*second + 593_790, 60 * second, second
	const ahead = w / 8
	short := func(at, total int64) string { return big48(at) + big48(total)[3:] }
	log := func(oldest, newest, units int64) string { return "S" + short(newest, units+7) + short(oldest, 8) }
	leaves := func(oldest, leaver, newest int64) string {
		return "MS" + short(newest, 9) + "S" + short(oldest, 7) + "S" + short(leaver, 8)
	}
	counter := func(start, prev, cur int64) string { return big48(prev) + big48(cur) + big48(start) }
	coarse := func(end, units int64, oldest, leaver byte) string {
		return "C" + big48(end) + big48(units) + string([]byte{oldest, leaver})
	}
	begun := int64(now - now%w)
	ends := int64(now - now%slot + slot - 1)
	for a, facts := range map[core.Algorithm]map[bool][]string{
		core.SlidingLog: {
			true: {
				"-", log(now, now, 1), log(now-w+1, now, 3), log(now, now+ahead, 2), log(now+ahead, now+ahead, 1),
				log(now-1, now, totals-1), leaves(now-w+1, now-w+1, now), leaves(now-w+1, now, now),
			},
			false: {
				log(now-w, now, 2), log(now-w-11_700*second, now, 3), log(now-w-11_700*second, now-w-11_700*second, 3),
				log(now, now+ahead+1, 2), log(now+3600*second, now+3600*second, 3), log(now+1, now, 2), log(now-1, now, 0),
				log(now-w*1000, now, 3), leaves(now-2, now-3, now), leaves(now-2, now+1, now), leaves(now-w, now, now),
				leaves(now-2, now-w-11_700*second, now),
			},
		},
		core.SlidingCounter: {
			true: {
				"-", counter(begun, 1, 1), counter(begun-w, 1, 1), counter(begun-1000*w, 9, 9),
				counter(begun, core.MaxCounterRequests+255, core.MaxCounterRequests+255),
			},
			false: {
				counter(begun+w, 1, 1), counter(begun+1000*w, 1, 1), counter(begun+1, 1, 1),
				counter(begun, 1, core.MaxCounterRequests+256), counter(begun, 1<<48-1, 1),
			},
		},
		core.CoarseLog: {
			true: {
				"-", coarse(ends, 5, 0, 0), coarse(ends, 5, 59, 1), coarse(ends+7*slot, 5, 66, 0), coarse(ends, 1<<47-1, 1, 0),
			},
			false: {
				coarse(ends, 0, 0, 0), coarse(ends, 1<<47, 0, 0), coarse(ends, 5, 61, 0), coarse(ends, 5, 255, 255),
				coarse(ends, 5, 1, 2), coarse(ends-w-slot, 5, 0, 0), coarse(ends-11_700*slot, 5, 0, 0),
				coarse(ends+9*slot, 5, 0, 0),
			},
		},
	} {
		c := &Rule{Binding: core.Binding{Limits: []core.Limit{core.PerMinute(3).Using(a)}}}
		for possible, all := range facts {
			for _, text := range all {
				uses := make([]core.Usage, 1)
				_, err := c.ReadAlone("1790000000 593790A"+text, new(core.Ask), uses)
				if possible != (err == nil) || !possible && !errors.Is(err, ErrForeign) {
					t.Errorf("%v %q: %+v, %v; possible: %v", a, text, uses, err, possible)
				}
				for _, verdict := range "AR" {
					d, err := c.ReadAlone("1790000000 593790"+string(verdict)+text, &core.Ask{Cost: 1, Peek: possible}, nil)
					checkRead(t, text, d, err)
					if !possible && !errors.Is(err, ErrForeign) || possible && err != nil && !errors.Is(err, ErrDisagree) {
						t.Errorf("%v %c%q: %+v, %v; possible: %v", a, verdict, text, d, err, possible)
					}
				}
			}
		}
	}
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

// big48 is the last 48 bits of n.
func big48(n int64) string {
	return string([]byte{byte(n >> 40), byte(n >> 32), byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
}

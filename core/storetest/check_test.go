package storetest

import (
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
)

// TestCheckLogs: a check that cannot fail would prove nothing.
func TestCheckLogs(t *testing.T) {
	limits := []core.Limit{core.Per(2, 10*time.Microsecond), core.Per(3, 100*time.Microsecond)}
	yes := func(at, cost int64) Outcome { return Outcome{At: time.UnixMicro(at), Allowed: true, Cost: cost} }
	no := func(at, cost int64) Outcome { return Outcome{At: time.UnixMicro(at), Cost: cost} }
	unknown := func(at, until int64) Outcome {
		return Outcome{At: time.UnixMicro(at), Cost: 1, Until: time.UnixMicro(until)}
	}
	for name, test := range map[string]struct {
		outcomes []Outcome
		ok       bool
	}{
		"within":                         {[]Outcome{yes(0, 1), yes(10, 2), no(12, 1)}, true},
		"in any order":                   {[]Outcome{no(12, 1), yes(10, 2), yes(0, 1)}, true},
		"above the short":                {[]Outcome{yes(0, 1), yes(9, 2)}, false},
		"above the long":                 {[]Outcome{yes(0, 2), yes(50, 2)}, false},
		"exactly a window apart":         {[]Outcome{yes(0, 2), yes(100, 2)}, true},
		"refused with room":              {[]Outcome{yes(0, 1), no(5, 1)}, false},
		"refused for its cost":           {[]Outcome{yes(0, 1), no(5, 2)}, true},
		"refused at the window's edge":   {[]Outcome{yes(0, 2), no(10, 1)}, false},
		"refused for what is not known":  {[]Outcome{yes(0, 1), unknown(5, 9), no(5, 1)}, true},
		"admitted for what is not known": {[]Outcome{yes(0, 1), unknown(5, 9), yes(5, 1)}, true},
		"unknown too late":               {[]Outcome{yes(0, 1), unknown(6, 9), no(5, 1)}, false},
		"unknown too early":              {[]Outcome{yes(19, 1), unknown(5, 10), no(20, 1)}, false},
		"refused by the long":            {[]Outcome{yes(0, 2), yes(20, 1), no(60, 1)}, true},
	} {
		if err := CheckLogs(test.outcomes, limits...); (err == nil) != test.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	coarse := core.Per(1, 60*time.Microsecond).Using(core.CoarseLog)
	err := CheckLogs([]Outcome{yes(0, 1), no(60, 1), no(61, 1), yes(62, 2)}, coarse)
	if v, ok := err.(*Violations); !ok || v.Above != 1 || v.Refused != 1 {
		t.Errorf("a coarse log: %v, want one of each kind", err)
	}
	bucket := core.Per(2, 10*time.Microsecond).Using(core.Bucket) // a unit in 5 us
	err = CheckLogs([]Outcome{yes(0, 2), no(4, 1), yes(5, 1), no(10, 1), yes(10, 1), yes(14, 1), yes(40, 2),
		unknown(41, 45), no(46, 1), no(56, 1)}, bucket)
	if v, ok := err.(*Violations); !ok || v.Above != 1 || v.Refused != 1 {
		t.Errorf("a bucket: %v, want one of each kind", err)
	}
}

// FuzzCheckLogs holds CheckLogs against a count of every window, one outcome after the other.
func FuzzCheckLogs(f *testing.F) {
	f.Add([]byte{0, 1, 1, 10, 1, 2, 2, 0, 1}, uint8(2), uint8(10))
	f.Add([]byte{0, 1, 2, 9, 0, 1, 1, 1, 1, 0, 1, 1}, uint8(3), uint8(9))
	f.Fuzz(func(t *testing.T, encoded []byte, requests, micros uint8) {
		limit := core.Per(int64(requests), time.Duration(micros)*time.Microsecond)
		var outcomes []Outcome
		now := time.UnixMicro(1_800_000_000_000_000)
		for ; len(encoded) >= 3 && len(outcomes) < 200; encoded = encoded[3:] {
			now = now.Add(time.Duration(encoded[0]) * time.Microsecond)
			outcomes = append(outcomes, Outcome{At: now, Allowed: encoded[1]%2 == 1, Cost: int64(encoded[2] % 4)})
		}
		ok := true
		for _, o := range outcomes {
			used := int64(0)
			for _, other := range outcomes {
				if other.Allowed && other.At.After(o.At.Add(-limit.Window)) && !other.At.After(o.At) {
					used += other.Cost
				}
			}
			if o.Allowed && used > limit.Requests || !o.Allowed && used+o.Cost <= limit.Requests {
				ok = false
			}
		}
		if err := CheckLogs(outcomes, limit); (err == nil) != ok {
			t.Errorf("CheckLogs = %v, want right %v, of %v under %v", err, ok, outcomes, limit)
		}
	})
}

package window

import "testing"

func TestBinds(t *testing.T) {
	admitted := func(remaining, reset int64) Verdict {
		return Verdict{Admitted: true, Remaining: remaining, ResetAfter: reset}
	}
	refused := func(retry int64) Verdict { return Verdict{RetryAfter: retry} }
	for _, test := range []struct {
		name   string
		v, w   Verdict
		expect bool
	}{
		{"a refusal before an admission", refused(1), admitted(0, 9), true},
		{"an admission after a refusal", admitted(0, 9), refused(1), false},
		{"the longer wait", refused(2), refused(1), true},
		{"the shorter wait", refused(1), refused(2), false},
		{"Never is the longest", refused(Never), refused(1 << 50), true},
		{"equal waits", refused(1), refused(1), false},
		{"the least remaining", admitted(1, 1), admitted(2, 9), true},
		{"more remaining", admitted(2, 9), admitted(1, 1), false},
		{"the longer reset", admitted(1, 2), admitted(1, 1), true},
		{"equal", admitted(1, 1), admitted(1, 1), false},
	} {
		if got := test.v.Binds(test.w); got != test.expect {
			t.Errorf("%s: %v", test.name, got)
		}
	}
}

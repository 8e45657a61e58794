package window

import "testing"

// TestRounded: a number is rounded up, by less than a thousandth, and rounding
// keeps the order.
func TestRounded(t *testing.T) {
	before := Rounded(0)
	for n := int64(0); n < 1<<42-1<<31; n += 1 + n/997 {
		r := Round(n)
		if got := r.Units(); got < n || n < 1<<roundedBits && got != n || got-n > n/1000 {
			t.Fatalf("%d is rounded to %d", n, got)
		}
		if Round(r.Units()) != r {
			t.Fatalf("%d is rounded to %d, and that to %d", n, r.Units(), Round(r.Units()).Units())
		}
		if r < before {
			t.Fatalf("%d is rounded to less than what came before", n)
		}
		before = r
	}
	if got := Round(1 << 62).Units(); got < 1<<41 {
		t.Errorf("the greatest number is %d", got)
	}
}

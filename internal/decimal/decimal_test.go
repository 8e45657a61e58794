package decimal_test

import (
	"math"
	"strconv"
	"testing"

	"github.com/sashlimit/sash/internal/decimal"
)

func TestString(t *testing.T) {
	numbers := []int64{math.MaxInt64, math.MinInt64}
	for n := range int64(12_000) {
		numbers = append(numbers, n, -n)
	}
	for power := int64(10); power < math.MaxInt64/10; power *= 10 {
		numbers = append(numbers, power-1, power, power+1)
	}
	for _, n := range numbers {
		want := strconv.FormatInt(n, 10)
		for size := range 24 {
			b := make([]byte, size+1)
			b[0] = '#'
			if got := decimal.String(b[1:], n); got != want || b[0] != '#' {
				t.Fatalf("%d in %d bytes: got %q, want %q", n, size, got, want)
			}
		}
	}
}

func TestAllocations(t *testing.T) {
	for n, size := range map[int64]int{0: 2, 9: 2, 99: 2, 100: 4, 9_223_372_037: 10, math.MaxInt64: 20} {
		b := make([]byte, size)
		if got := testing.AllocsPerRun(100, func() { decimal.String(b, n) }); got != 0 {
			t.Errorf("%d in %d bytes: %v allocations", n, size, got)
		}
	}
}

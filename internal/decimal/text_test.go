package decimal_test

import (
	"math"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"github.com/sashlimit/sash/internal/decimal"
)

// The strings of one response lie in parts of one array, and outlive the slices that
// String and Text were given. Under -race this test checks the use of package unsafe:
// the race detector reports a byte that is written outside its part, and -race turns
// on the checks of the compiler's flag -d=checkptr, which end the test if the memory
// of a string is not within one object.
func TestStringsInOneArray(t *testing.T) {
	const parts, size = 8, 20
	array := new([2 * parts * size]byte)
	var numbers, texts [parts]string
	var writers sync.WaitGroup
	for i := range parts {
		number, text := array[2*i*size:][:size], array[(2*i+1)*size:][:size]
		writers.Go(func() {
			for n := range int64(1000) {
				numbers[i] = decimal.String(number, math.MaxInt64-n-int64(i))
			}
		})
		writers.Go(func() {
			for n := range int64(1000) {
				texts[i] = decimal.Text(strconv.AppendInt(text[:0], math.MaxInt64-n-int64(i), 10))
			}
		})
	}
	writers.Wait()
	array = nil
	runtime.GC()
	for i := range parts {
		want := strconv.FormatInt(math.MaxInt64-999-int64(i), 10)
		if numbers[i] != want || texts[i] != want {
			t.Errorf("part %d: got %q and %q, want %q", i, numbers[i], texts[i], want)
		}
	}
}

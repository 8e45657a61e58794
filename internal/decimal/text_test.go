package decimal_test

import (
	"math"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"github.com/sashlimit/sash/internal/decimal"
)

func TestText(t *testing.T) {
	array := []byte("0123456789")
	for _, c := range []struct {
		b    []byte
		want string
	}{
		{nil, ""},
		{[]byte{}, ""},
		{array[len(array):], ""},
		{array[:1], "0"},
		{array[3:5], "34"},
		{array[9:], "9"},
		{array, "0123456789"},
	} {
		if got := decimal.Text(c.b); got != c.want {
			t.Errorf("%q: got %q", c.want, got)
		}
	}
}

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

// fields and fieldsWithText are what a response keeps of two header fields: the values
// alone, and the values with memory for their text.
type (
	fields         struct{ values [2]string }
	fieldsWithText struct {
		values [2]string
		text   [32]byte
	}
)

// BenchmarkFields puts its responses here, so that they are on the heap.
var (
	kept         *fields
	keptWithText *fieldsWithText
)

// BenchmarkFields makes the values of two header fields, as package headers does for
// every response: in the memory of the response, with one copy for both, and with a
// copy for each. It shows what Text is there for, in allocations for a response.
func BenchmarkFields(b *testing.B) {
	const remaining, reset = 99_958, 3_517
	b.Run("in place", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			keptWithText = new(fieldsWithText)
			keptWithText.values[0] = decimal.String(keptWithText.text[:20], remaining)
			keptWithText.values[1] = decimal.String(keptWithText.text[20:], reset)
		}
	})
	b.Run("one copy", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			kept = new(fields)
			var digits [40]byte
			first := strconv.AppendInt(digits[:0], remaining, 10)
			both := string(strconv.AppendInt(first, reset, 10))
			kept.values[0], kept.values[1] = both[:len(first)], both[len(first):]
		}
	})
	b.Run("a copy each", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			kept = new(fields)
			kept.values[0] = strconv.FormatInt(remaining, 10)
			kept.values[1] = strconv.FormatInt(reset, 10)
		}
	})
}

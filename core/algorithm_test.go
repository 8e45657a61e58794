package core

import (
	"strings"
	"testing"
)

// TestUnknownAlgorithm: an algorithm that a method does not know panics there, and
// is not taken for another one.
func TestUnknownAlgorithm(t *testing.T) {
	unknown := PerMinute(1).Using(SlidingCounter + 1)
	for name, call := range map[string]func(){
		"retention": func() { unknown.retention() },
		"code":      func() { _ = unknown.code() },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				text, _ := recover().(string)
				if !strings.Contains(text, "unknown algorithm: Algorithm(2)") {
					t.Errorf("the panic is %q", text)
				}
			}()
			call()
		})
	}
}

package core

import (
	"slices"
	"strings"
	"testing"
)

// TestEveryAlgorithm walks all algorithms through what the engine knows of them.
func TestEveryAlgorithm(t *testing.T) {
	names := map[string]bool{}
	for i, a := range Algorithms() {
		t.Run(a.String(), func(t *testing.T) {
			if name := a.String(); names[name] || name == "" || strings.ContainsAny(name, "( :/%") {
				t.Errorf("algorithm %d has the name %q, want one word of its own", i, name)
			}
			names[a.String()] = true
			limit := PerMinute(1).Using(a)
			if got, err := ParseLimit(limit.String()); got != limit || err != nil {
				t.Errorf("%v is read as %v, %v", limit, got, err)
			}
		})
	}
}

// TestUnknownAlgorithm: an algorithm that a method does not know panics there, and
// is not taken for another one.
func TestUnknownAlgorithm(t *testing.T) {
	unknown := PerMinute(1).Using(Algorithm(len(Algorithms())))
	for name, call := range map[string]func(){
		"steady":   func() { unknown.Algorithm.Steady() },
		"leasable": func() { unknown.Algorithm.Leasable() },
		"code":     func() { _ = unknown.code() },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				text, _ := recover().(string)
				if !strings.Contains(text, "unknown algorithm: "+unknown.Algorithm.String()) {
					t.Errorf("the panic is %q", text)
				}
			}()
			call()
		})
	}
	if slices.Contains(Algorithms(), unknown.Algorithm) || !strings.HasPrefix(unknown.Algorithm.String(), "Algorithm(") {
		t.Errorf("an unknown algorithm is called %v", unknown.Algorithm)
	}
}

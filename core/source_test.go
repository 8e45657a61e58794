package core_test

import (
	"context"
	"errors"
	"testing"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
)

// TestSource: a decision says where it comes from, and each source has a word of its own.
func TestSource(t *testing.T) {
	store := func(answer core.Decision, err error) *fake {
		return &fake{answer: func(context.Context) (core.Decision, error) { return answer, err }}
	}
	allowed := core.Decision{Allowed: true}
	leased := core.Decision{Allowed: true, Source: core.SourceLeased}
	for _, c := range []struct {
		name   string
		store  core.Store
		policy core.Policy
		key    string
		want   core.Source
		word   string
	}{
		{"malformed", store(allowed, nil), nil, "", core.SourceUnasked, "unasked"},
		{"a store that says nothing", store(allowed, nil), nil, "k", core.SourceCounted, "counted"},
		{"memory", memstore.New(), core.FailClosed, "k", core.SourceCounted, "counted"},
		{"a lease", store(leased, nil), nil, "k", core.SourceLeased, "leased"},
		{"a lease beside a fallback", store(leased, nil), core.Fallback(memstore.New(), 1), "k", core.SourceLeased, "leased"},
		{"open", store(leased, errDown), core.FailOpen, "k", core.SourcePolicy, "policy"},
		{"closed", store(allowed, errDown), core.FailClosed, "k", core.SourcePolicy, "policy"},
		{"a fallback", store(allowed, errDown), core.Fallback(memstore.New(), 1), "k", core.SourceFallback, "fallback"},
		{"a fallback that fails", store(allowed, errDown), core.Fallback(store(allowed, errors.New("full")), 1), "k",
			core.SourcePolicy, "policy"},
	} {
		d := limiter(t, core.Config{Store: c.store, OnStoreError: c.policy}).Allow(ctx, c.key)
		if d.Source != c.want || d.Source.String() != c.word {
			t.Errorf("%s: the source is %v, want %q", c.name, d.Source, c.word)
		}
	}
	seen := map[string]bool{}
	for s := core.SourceUnasked; s <= core.SourceSkipped+1; s++ {
		if seen[s.String()] || s.String() == "" {
			t.Errorf("source %d is called %q, like another", s, s)
		}
		seen[s.String()] = true
	}
}

package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/internal/model"
)

// usage checks what Usage returns without counts, and without a client. Histories compares
// it with the model.
func (s *suite) usage() {
	for i, limits := range byEach(perYear(3), perYear(9).Named("second")) {
		l := s.limiter(limits...)
		uses, err := l.Usage(ctx, fmt.Sprint("nobody ", i))
		if err != nil || len(uses) != len(limits) {
			s.Fatalf("%v, %v, want a use for each of %v", uses, err, limits)
		}
		var none model.Client
		if want := none.Usage(l.Limits(), uses[0].At); !slices.Equal(uses, want) {
			s.Fatalf("of nobody:\n got %+v\nwant %+v", uses, want)
		}
	}
	l := s.limiter(perYear(3))
	if uses, err := l.Usage(ctx, ""); uses != nil || !errors.Is(err, core.ErrInvalid) {
		s.Fatalf("of an empty key: %v, %v, want ErrInvalid", uses, err)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if uses, err := l.Usage(ended, "client"); uses != nil || err != context.Canceled {
		s.Fatalf("with an ended context: %v, %v, want context.Canceled", uses, err)
	}
}

package guard

import (
	"context"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/internal/hidden"
)

// limiters has the methods of limiters that package core hides from its users.
var limiters = hidden.Limiters.(interface {
	Observed(l *core.Limiter) bool
	Report(ctx context.Context, l *core.Limiter, r core.Request, d core.Decision)
	Notice(ctx context.Context, l *core.Limiter, code, text string)
	Hears(l *core.Limiter, code string) bool
	Shared(l *core.Limiter, create func() any) any
})

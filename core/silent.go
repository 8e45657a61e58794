package core

import "context"

// Silent is an [Observer] for Config.Observer that keeps a limiter from logging.
const Silent silence = 0

// silence is a constant, so that no program can reassign it.
type silence uint8

// Observe does nothing.
func (silence) Observe(context.Context, Event) {}

// Package live serves a page that plays with the middleware of this module. The page sends real requests. Each is
// judged by a SlidingLog behind the middleware, and beside it by the other algorithms and a naive fixed window.
package live

import (
	"fmt"
	"time"
)

// The bounds of what a page may ask for. Its sliders end there.
const (
	MaxLimit    = 60 // requests in a window
	MaxWindow   = 30 // seconds
	Clients     = 32 // clients of a session
	Replicas    = 4
	maxSessions = 32
	maxEvents   = 2048 // requests of a session that are remembered one by one

	requestsASecond   = 150 // taken from a session
	sessionsPerMinute = 240

	patience = 100 * time.Millisecond // a store that is asked whether it is there answers sooner
)

// Settings holds the choices of a page for a session.
type Settings struct {
	Limit  int `json:"limit"`  // requests in a window
	Window int `json:"window"` // seconds
}

func (s Settings) check() error {
	switch {
	case s.Limit < 1 || s.Limit > MaxLimit:
		return fmt.Errorf("a limit of %d: it is from 1 to %d", s.Limit, MaxLimit)
	case s.Window < 1 || s.Window > MaxWindow:
		return fmt.Errorf("a window of %d s: it is from 1 to %d s", s.Window, MaxWindow)
	}
	return nil
}

func (s Settings) window() time.Duration { return time.Duration(s.Window) * time.Second }

// millis is a time as the page has it, in milliseconds since 1970.
func millis(t time.Time) float64 { return float64(t.UnixMicro()) / 1000 }

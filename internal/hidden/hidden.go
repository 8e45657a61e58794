// Package hidden opens to other packages of this module what package core hides from its users.
package hidden

import "time"

// Limiters has methods about limiters of which only package nethttp can make good use. Package core sets it. A
// caller asserts an interface of its own with the methods that it calls: this package cannot name a core.Limiter.
var Limiters any

// DefaultTimeout is the Config.Timeout that 0 stands for.
const DefaultTimeout = 100 * time.Millisecond

// Package hidden opens to package nethttp what package core hides from its users.
package hidden

// Limiters has methods about limiters of which only package nethttp can make good use. Package core sets it. A
// caller asserts an interface of its own with the methods that it calls: this package cannot name a core.Limiter.
var Limiters any

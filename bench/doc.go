// Package bench measures sash side by side with other Go rate limiters.
//
// The command in cmd/compare prints one table of ratios; README.md says what is
// measured, how, and what cannot be compared. The benchmarks of this package
// measure the same contestants one at a time:
//
//	go run ./cmd/compare                     # the table, five to nine minutes
//	go test -run '^$' -bench . -benchtime 1x # everything once, about a minute
//
// The package is a module of its own, so that its dependencies do not become
// dependencies of sash.
package bench

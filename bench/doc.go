// Package bench measures sash side by side with other Go rate limiters.
//
// The command in cmd/compare prints one table of ratios; README.md says what is
// measured, how, and what cannot be compared. The benchmarks of this package
// are the same contestants one at a time:
//
//	go run ./cmd/compare                     # the table, five to nine minutes
//	go test -run '^$' -bench . -benchtime 1x # everything once, about a minute
//
// It is a module of its own, so that nothing that it needs becomes a dependency
// of sash.
package bench

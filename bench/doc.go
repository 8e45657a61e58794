// Package bench measures sash side by side with other Go rate limiters.
//
// The command in cmd/compare prints one table of ratios, and the command in cmd/http
// one of whole HTTP servers. README.md says what is compared, how to read the tables,
// and how it is measured. The benchmarks of this package measure the contestants of
// cmd/compare one at a time:
//
//	go run ./cmd/compare                     # a table, five to nine minutes
//	go run ./cmd/http                        # a table, about four minutes
//	go test -run '^$' -bench . -benchtime 1x # all benchmarks once, about a minute
//
// The package is a module of its own, so that its dependencies do not become
// dependencies of sash.
package bench

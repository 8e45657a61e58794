// Package bench measures sash side by side with other Go rate limiters, and holds docs/comparison.md to what they do.
//
// The command in cmd/compare prints one table of ratios, and the command in cmd/http one of whole HTTP servers.
// README.md says what is compared, how to read the tables, and how it is measured. The package is a module of its own,
// so that its dependencies do not become dependencies of sash.
package bench

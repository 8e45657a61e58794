module github.com/sashlimit/sash/headers/sfvtest

go 1.26.0

replace github.com/sashlimit/sash => ../..

require (
	github.com/dunglas/httpsfv v1.1.2
	github.com/sashlimit/sash v0.0.0-00010101000000-000000000000
)

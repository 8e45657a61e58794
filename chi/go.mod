module github.com/sashlimit/sash/chi

go 1.26.0

replace github.com/sashlimit/sash => ..

require (
	github.com/go-chi/chi/v5 v5.2.0
	github.com/sashlimit/sash v0.0.0
)

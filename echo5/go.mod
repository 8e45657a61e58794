module github.com/sashlimit/sash/echo5

go 1.26.0

replace github.com/sashlimit/sash => ..

require (
	github.com/labstack/echo/v5 v5.3.0
	github.com/sashlimit/sash v0.0.0
)

require golang.org/x/time v0.15.0 // indirect

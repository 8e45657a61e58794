module github.com/sashlimit/sash/prove

go 1.26.0

require (
	github.com/redis/go-redis/v9 v9.21.0
	github.com/sashlimit/sash v0.0.0
)

require gopkg.in/yaml.v3 v3.0.1 // indirect

require (
	github.com/anishathalye/porcupine v1.3.1
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	go.uber.org/atomic v1.11.0 // indirect
)

replace github.com/sashlimit/sash => ..

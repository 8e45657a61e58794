module github.com/sashlimit/sash/extra/sashgrpc

go 1.26.0

replace github.com/sashlimit/sash => ../..

require (
	github.com/sashlimit/sash v0.0.0
	google.golang.org/genproto/googleapis/rpc v0.0.0-20250804133106-a7a43d27e69b
	google.golang.org/grpc v1.76.0
	google.golang.org/protobuf v1.36.6
)

require (
	golang.org/x/net v0.56.0 // indirect
	golang.org/x/sys v0.46.0 // indirect
	golang.org/x/text v0.38.0 // indirect
)

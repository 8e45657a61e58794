package redistest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// Ports come from below the range that systems take the local ports of
// outgoing connections from (32768 on Linux, 49152 elsewhere). Otherwise a
// client's connection could take the port of a server that is down for a while.
const lowestPort, highestPort = 10_000, 32_000

var taken = struct {
	sync.Mutex
	ports map[int]bool
}{ports: map[int]bool{}}

// freePort returns a port that nobody listens on and that it has not returned
// before: a killed server keeps its port.
func freePort() (int, error) {
	taken.Lock()
	defer taken.Unlock()
	var err error
	for range 1000 {
		port := lowestPort + rand.IntN(highestPort-lowestPort)
		if taken.ports[port] {
			continue
		}
		var l net.Listener
		if l, err = net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port))); err != nil {
			continue
		}
		l.Close()
		taken.ports[port] = true
		return port, nil
	}
	return 0, fmt.Errorf("redistest: no free port from %d to %d: %w", lowestPort, highestPort, err)
}

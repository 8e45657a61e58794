package redistest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// lowestPort and highestPort lie below the range from which systems take the
// local ports of outgoing connections: it begins at 32768 on Linux and at 49152
// elsewhere. Otherwise a client's connection could take the port of a server
// that is down for a while.
const lowestPort, highestPort = 10_000, 32_000

// tried holds the ports that FreePort has tried.
var tried sync.Map

// FreePort returns a port on which no process listens. It never returns the same
// port twice, since a killed server keeps its port. It is safe for concurrent use.
func FreePort() (int, error) {
	for range 1000 {
		port := lowestPort + rand.IntN(highestPort-lowestPort)
		if _, before := tried.LoadOrStore(port, true); before {
			continue
		}
		if l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port))); err == nil {
			l.Close()
			return port, nil
		}
	}
	return 0, fmt.Errorf("redistest: no free port from %d to %d", lowestPort, highestPort)
}

package redistest

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestServersDieWithTheTestBinary(t *testing.T) {
	t.Parallel()
	const variable = "REDISTEST_ORPHAN"
	if how := os.Getenv(variable); how != "" { // this process is the binary that the test kills
		s := Start(t)
		if how == "paused" {
			s.Pause()
		}
		fmt.Println(s.Addr())
		time.Sleep(time.Minute)
		return
	}

	dial := func(addr string) error {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
		}
		return err
	}
	for _, how := range []string{"running", "paused"} {
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
		// No cleanup of the killed binary runs, so its directories go into this test's.
		cmd.Env = append(os.Environ(), variable+"="+how, "TMPDIR="+t.TempDir())
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		addr, _ := bufio.NewReader(out).ReadString('\n')
		addr = strings.TrimSpace(addr)
		if err := dial(addr); err != nil {
			t.Errorf("no server at %q: %v", addr, err)
		}
		cmd.Process.Kill()
		cmd.Wait()
		WaitFor(t, "the orphan to die", func() error {
			if err := dial(addr); !errors.Is(err, syscall.ECONNREFUSED) {
				return fmt.Errorf("%s listens: %v", addr, err)
			}
			return nil
		})
	}
}

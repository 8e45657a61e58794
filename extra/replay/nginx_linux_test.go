//go:build !short

package replay

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
)

// TestNginx: the log of a real nginx in front of the example server says the same refusals as the server, request by
// request. What is sent at once may be refused in another order: of that, as many must be refused.
func TestNginx(t *testing.T) {
	dir := t.TempDir()
	server := filepath.Join(dir, "server")
	build := exec.Command("go", "-C", "../../examples", "build", "-o", server, "./nethttp")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	behind, front := freeAddr(t), freeAddr(t)
	start(t, front, behind, exec.Command(server, "-addr", behind, "-trust", "127.0.0.1/32"), nginx(t, dir, front, behind))

	var all sync.WaitGroup
	for client := 2; client <= 5; client++ {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(client))}}
		transport := &http.Transport{DialContext: dialer.DialContext}
		t.Cleanup(transport.CloseIdleConnections)
		send := func(method, path string) {
			request, _ := http.NewRequest(method, "http://"+front+path, nil)
			response, err := transport.RoundTrip(request)
			if err != nil {
				t.Error(err)
				return
			}
			_ = response.Body.Close()
		}
		all.Go(func() {
			for i := range 40 * client {
				switch {
				case i%10 == 0:
					send("POST", "/api/upload")
				case i%10 == 1:
					send("POST", "/login")
				case i%10 == 2:
					send("GET", "/health")
				case client == 5 && i%10 == 3:
					var atOnce sync.WaitGroup
					for range 5 {
						atOnce.Go(func() { send("GET", "/api/data?x=%20") })
					}
					atOnce.Wait()
				default:
					send("GET", "/api/data")
				}
			}
		})
	}
	all.Wait()
	const requests = 40*2 + 40*3 + 40*4 + 40*5 + 20*4
	log := logOf(t, filepath.Join(dir, "access.log"), requests)

	path := func(method, path string) func(*http.Request) bool {
		return func(r *http.Request) bool { return r.Method == method && r.URL.Path == path }
	}
	config := Config{
		Format: `$remote_addr [$msec] "$request" $status $request_time`,
		Limits: []core.Limit{core.PerMinute(100)},
		Skip:   path("GET", "/health"),
		Routes: []Route{
			{"POST /api/upload", path("POST", "/api/upload"), []core.Limit{core.PerMinute(5)}},
			{"POST /login", path("POST", "/login"), []core.Limit{core.Per(5, 15*time.Minute)}},
		},
	}
	var refusedLines strings.Builder
	for line := range strings.Lines(log) {
		if strings.Contains(line, `" 429 `) {
			refusedLines.WriteString(line)
		}
	}
	byServer, byReplay := map[string]int{}, map[string]int{} // by client, time and route
	inServer, inReplay := map[string]int{}, map[string]int{} // by client
	server429 := reported(t, config, refusedLines.String())
	for c := range server429.Clients {
		for _, at := range server429.q.of(c) {
			byServer[fmt.Sprint(server429.names[c], at)]++
			inServer[server429.names[c]]++
		}
	}
	r := reported(t, config, log)
	limits := config.limits()
	err := r.q.decide(limits, r.names, func(int) bool { return true }, func(e event, _ int, _ *core.Decision) {
		byReplay[fmt.Sprint(r.names[e.client], e.at)]++
		inReplay[r.names[e.client]]++
	})
	if err != nil {
		t.Fatal(err)
	}
	if total := server429.Requests; r.Refused != total || total < 100 {
		t.Errorf("the replay refuses %d requests, the server %d; want the same and at least 100\n%s", r.Refused, total, log)
	}
	other := 0
	for request, n := range byServer {
		if d := n - byReplay[request]; d > 0 {
			other += d
			if !strings.HasPrefix(request, "ip:127.0.0.5") {
				t.Errorf("the server has refused %s, and the replay has not", request)
			}
		}
	}
	for client, n := range inServer {
		if inReplay[client] != n {
			t.Errorf("%s: the server has refused %d requests, the replay %d", client, n, inReplay[client])
		}
	}
	t.Logf("of %d requests %d were refused; %d that were sent at once were refused in another order",
		r.Requests, r.Refused, other)
}

// freeAddr returns an address that nobody listens on.
func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// nginx returns the command of an nginx on front that passes requests on to behind, and writes access.log into dir.
func nginx(t *testing.T, dir, front, behind string) *exec.Cmd {
	t.Helper()
	program, err := exec.LookPath("nginx")
	if err != nil {
		program = "/usr/sbin/nginx"
	}
	config := fmt.Sprintf(`daemon off; master_process off; pid nginx.pid; error_log stderr;
events {}
http {
	client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path f; uwsgi_temp_path u; scgi_temp_path s;
	log_format replay '$remote_addr [$msec] "$request" $status $request_time';
	access_log access.log replay;
	keepalive_requests 10000;
	server {
		listen %s;
		location / {
			proxy_pass http://%s;
			proxy_set_header X-Forwarded-For $remote_addr;
		}
	}
}
`, front, behind)
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return exec.Command(program, "-p", dir, "-e", "stderr", "-c", file)
}

// start starts commands that end with the test, and waits until both addresses answer.
func start(t *testing.T, front, behind string, commands ...*exec.Cmd) {
	t.Helper()
	for _, command := range commands {
		command.Stderr = t.Output()
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = command.Process.Kill(); _ = command.Wait() })
	}
	for _, addr := range []string{front, behind} {
		for until := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			conn, err := net.Dial("tcp", addr)
			if err == nil {
				_ = conn.Close()
				break
			}
			if time.Now().After(until) {
				t.Fatalf("%s does not answer: %v", addr, err)
			}
		}
	}
}

// logOf returns the text of a log once it has so many lines.
func logOf(t *testing.T, file string, lines int) string {
	t.Helper()
	for until := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		text, err := os.ReadFile(file)
		if err == nil && bytes.Count(text, []byte("\n")) == lines {
			return string(text)
		}
		if time.Now().After(until) {
			t.Fatalf("the log has not %d lines: %v: %s", lines, err, text)
		}
	}
}

//go:build !short

package replay

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/internal/redistest"
	"github.com/sashlimit/sash/keyfuncs"
	"github.com/sashlimit/sash/nethttp"
)

// nginxConfig is for the directory of the configuration. Clients come over a socket, so each says its name.
const nginxConfig = `daemon off; master_process off; pid nginx.pid; error_log stderr;
events {}
http {
	client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path f; uwsgi_temp_path u; scgi_temp_path s;
	log_format replay '"$http_x_client" [$msec] "$request" $status $request_time';
	access_log access.log replay;
	server { listen unix:front.sock; location / { proxy_pass http://%s; } }
}
`

// TestNginx: by the log of a real nginx, which answered at once to several clients, the limits of the server behind it
// would have refused each client as often as they have.
func TestNginx(t *testing.T) {
	byClient := keyfuncs.Header("X-Client")
	api := core.Must(core.New(core.Config{Store: memstore.New(), Limits: []core.Limit{core.PerMinute(100)}}))
	login := core.Must(api.Rule("login", core.Per(5, 15*time.Minute)))
	nothing := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	mux := http.NewServeMux()
	mux.Handle("POST /login", nethttp.Middleware(login, byClient)(nothing))
	mux.Handle("/", nothing)
	server := httptest.NewServer(nethttp.Middleware(api, byClient, nethttp.SkipPaths("/health"))(mux))
	defer server.Close()
	dir := t.TempDir()
	config := fmt.Sprintf(nginxConfig, server.Listener.Addr())
	if err := os.WriteFile(filepath.Join(dir, "nginx.conf"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin")
	nginx := exec.Command("nginx", "-p", dir, "-e", "stderr", "-c", filepath.Join(dir, "nginx.conf"))
	nginx.Dir, nginx.Stderr = dir, t.Output()
	if err := redistest.Launch(nginx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nginx.Process.Kill() })
	front := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return net.Dial("unix", filepath.Join(dir, "front.sock"))
	}}
	defer front.CloseIdleConnections()
	send := func(client, method, path string) (int, error) {
		r, _ := http.NewRequest(method, "http://front"+path, nil)
		r.Header.Set("X-Client", client)
		response, err := front.RoundTrip(r)
		if err != nil {
			return 0, err
		}
		return response.StatusCode, response.Body.Close()
	}
	redistest.WaitFor(t, "nginx to listen", func() error { _, err := send("a", "GET", "/health"); return err })

	var all sync.WaitGroup
	refused := make([]int, 4) // by client
	for client := range refused {
		all.Go(func() {
			for i := range 60 * client {
				path := []string{"POST /login", "GET /health", "GET /a?x=%20", "GET /a", "GET /a"}[i%5]
				method, path, _ := strings.Cut(path, " ")
				status, err := send(fmt.Sprint(client), method, path)
				if err != nil {
					t.Error(err)
				} else if status == http.StatusTooManyRequests {
					refused[client]++
				}
			}
		})
	}
	all.Wait()
	_ = nginx.Process.Signal(syscall.SIGQUIT) // it writes what is left of the log
	if err := nginx.Wait(); err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile(filepath.Join(dir, "access.log"))
	if err != nil {
		t.Fatal(err)
	}
	path := func(want string) func(*http.Request) bool {
		return func(r *http.Request) bool { return r.Method+" "+r.URL.Path == want }
	}
	report := reported(t, Config{
		Key: byClient, Limits: []core.Limit{core.PerMinute(100)}, Skip: path("GET /health"),
		Routes: []Route{{"POST /login", path("POST /login"), []core.Limit{core.Per(5, 15*time.Minute)}}},
		Format: `"$http_x_client" [$msec] "$request" $status $request_time`,
	}, string(log))
	for _, c := range report.Top {
		if want := refused[c.Name[len(c.Name)-1]-'0']; c.Refused != want || want == 0 {
			t.Errorf("%s: the replay refuses %d requests, the server has refused %d; want the same", c.Name, c.Refused, want)
		}
	}
	if len(report.Top) != 3 {
		t.Errorf("%d clients, want 3: %s", len(report.Top), log)
	}
}

package docs_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sashlimit/sash/internal/redistest"
)

// configBlocks are the configurations of proxies on proxies.md. The first line of each is a
// comment with its name, such as "# nginx: append".
var configBlocks = regexp.MustCompile("(?ms)^```(nginx|haproxy|caddy)\n# ([^\n]*)\n(.*?)^```$")

// proxyConfig is a configuration that proxies.md shows.
type proxyConfig struct{ program, text string }

// proxyConfigs returns the configurations of proxies.md by their names.
func proxyConfigs(t *testing.T) map[string]proxyConfig {
	t.Helper()
	page, err := os.ReadFile("proxies.md")
	if err != nil {
		t.Fatal(err)
	}
	configs := map[string]proxyConfig{}
	for _, block := range configBlocks.FindAllStringSubmatch(string(page), -1) {
		if _, twice := configs[block[2]]; twice {
			t.Fatalf("proxies.md has two configurations named %q", block[2])
		}
		configs[block[2]] = proxyConfig{program: block[1], text: block[3]}
	}
	socket := regexp.MustCompile("`(proxy_pass http://unix:.*?)`").FindSubmatch(page)
	if socket == nil {
		t.Fatal("proxies.md does not say what nginx passes to a unix socket")
	}
	nginx := configs["nginx: append"]
	nginx.text = strings.Replace(nginx.text, "proxy_pass http://127.0.0.1:8080;", string(socket[1]), 1)
	configs["nginx: unix socket"] = nginx
	return configs
}

// proxy is a server of one of the configurations of proxies.md, which passes requests on
// to upstream.
type proxy struct {
	config   proxyConfig
	port     int
	upstream string // host:port, or the path of a unix socket
}

// render returns the configuration with the addresses of the test in the place of those
// of the page. Names of HAProxy are made different from those of other proxies.
func (p proxy) render(t *testing.T) string {
	t.Helper()
	port, second := strconv.Itoa(p.port), "::1"
	if !hasIPv6() {
		second = "127.0.0.2"
	}
	text := strings.NewReplacer(
		"listen 80", "listen 127.0.0.1:"+port,
		"listen [::]:80", "listen "+net.JoinHostPort(second, port),
		"bind :80", "bind 127.0.0.1:"+port,
		"bind [::]:80 v6only", "bind "+net.JoinHostPort(second, port),
		":80 {", ":"+port+" {\n\tbind 127.0.0.1 "+second,
		"unix:/run/api.sock", "unix:"+p.upstream,
		"127.0.0.1:8080", p.upstream,
		"10.0.0.0/8", "127.0.0.1/32",
		"frontend web", "frontend web"+port,
		"backend api", "backend api"+port,
		"$forwarded_for", "$forwarded_for"+port,
	).Replace(p.config.text)
	if !strings.Contains(text, port) || !strings.Contains(text, p.upstream) {
		t.Fatalf("not the ports and addresses of proxies.md, which the test replaces:\n%s", p.config.text)
	}
	return text
}

// url returns the address of the proxy for clients of host.
func (p proxy) url(host string) string {
	return "http://" + net.JoinHostPort(host, strconv.Itoa(p.port)) + "/"
}

// startProxies starts one process of each program for all its proxies. It returns a
// channel that gets an error if one of the processes ends. They end with the test.
func startProxies(t *testing.T, proxies []proxy) (exited chan error) {
	t.Helper()
	text := map[string]string{}
	for _, p := range proxies {
		text[p.config.program] += p.render(t) + "\n"
	}
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		write(t, path, text)
		return path
	}
	start := map[string]func(config string) *exec.Cmd{
		"nginx": func(config string) *exec.Cmd {
			// One process, so that no worker outlives it.
			config = "daemon off; master_process off; pid nginx.pid; error_log stderr;\nevents {}\nhttp {\n" +
				"access_log off; client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;\n" +
				"uwsgi_temp_path uwsgi; scgi_temp_path scgi;\n" + config + "}\n"
			return exec.Command(program(t, "nginx"), "-p", dir, "-e", "stderr", "-c", file("nginx.conf", config))
		},
		"haproxy": func(config string) *exec.Cmd {
			config = "global\n    nbthread 1\ndefaults\n    timeout connect 5s\n    timeout client 10s\n" +
				"    timeout server 10s\n" + config
			return exec.Command(program(t, "haproxy"), "-db", "-f", file("haproxy.cfg", config))
		},
		"caddy": func(config string) *exec.Cmd {
			config = "{\n\tadmin off\n\tauto_https off\n}\n" + config
			return exec.Command(program(t, "caddy"), "run", "--adapter", "caddyfile",
				"--config", file("Caddyfile", config))
		},
	}
	exited = make(chan error, len(text))
	for name, config := range text {
		run(t, start[name](config), dir, exited)
	}
	return exited
}

// program returns the path of a program of a Debian package. Some are in /usr/sbin, which
// is not in the PATH of each user.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		path, err = exec.LookPath("/usr/sbin/" + name)
	}
	if err != nil {
		t.Fatalf("%v: install Debian's package %s, or run make test, which does", err, name)
	}
	return path
}

// run starts a process in a folder, and ends it with the test. If it ends earlier, exited gets an error with its log.
func run(t *testing.T, cmd *exec.Cmd, dir string, exited chan<- error) {
	t.Helper()
	var log bytes.Buffer // complete when the process has ended
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &log, &log
	cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_DATA_HOME="+dir, "XDG_CONFIG_HOME="+dir)
	if err := redistest.Launch(cmd); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		state := cmd.Wait()
		exited <- fmt.Errorf("%v ended: %v; its log:\n%s", cmd.Args, state, &log)
	}()
	t.Cleanup(func() { cmd.Process.Kill(); <-ended })
}

// errPortTaken means that another process took the port of a proxy first.
var errPortTaken = errors.New("a port is taken")

// waitForProxies waits until a request through each of the outermost proxies gets the
// server's answer. A port may be that of another process, so connecting is not enough.
func waitForProxies(outermost []proxy, exited <-chan error) error {
	deadline := time.Now().Add(20 * time.Second)
	for _, p := range outermost {
		for {
			err := ready(p.url("127.0.0.1") + "ready")
			if err == nil {
				break
			}
			if time.Now().After(deadline) {
				return fmt.Errorf("waited for a proxy: %w", err)
			}
			select {
			case err := <-exited:
				if strings.Contains(strings.ToLower(err.Error()), "address already in use") {
					return errors.Join(errPortTaken, err)
				}
				return err
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
	return nil
}

// readiness is what the server behind the proxies answers to a request for /ready.
const readiness = "the server behind the proxies"

// ready returns nil if url has the answer of the server.
func ready(url string) error {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Second}
	response, err := client.Get(url)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body := make([]byte, len(readiness))
	if _, err := io.ReadFull(response.Body, body); err != nil || string(body) != readiness {
		return fmt.Errorf("%s answered %s, %q, %v", url, response.Status, body, err)
	}
	return nil
}

// serveOn serves handler on a TCP port and on a unix socket until the test ends, and
// returns their addresses.
func serveOn(t *testing.T, handler http.Handler) (tcp, unix string) {
	t.Helper()
	server := &http.Server{Handler: handler}
	t.Cleanup(func() { server.Close() })
	dir, err := os.MkdirTemp("", "sash") // a short path: that of a socket has at most 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	unix = filepath.Join(dir, "api.sock")
	for network, addr := range map[string]string{"tcp": "127.0.0.1:0", "unix": unix} {
		l, err := net.Listen(network, addr)
		if err != nil {
			t.Fatal(err)
		}
		if network == "tcp" {
			tcp = l.Addr().String()
		}
		go server.Serve(l)
	}
	return tcp, unix
}

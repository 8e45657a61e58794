package grafana_test

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
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

// needed returns the path of a command of Debian's package prometheus. Without it the
// test fails: a suite that skips proves nothing.
func needed(t *testing.T, command string) string {
	t.Helper()
	path, err := exec.LookPath(command)
	if err != nil {
		t.Fatalf("%v: install Debian's package prometheus, or run make test-metrics, which does", err)
	}
	return path
}

// prometheusServer is a Prometheus of its own for one test.
type prometheusServer struct {
	url string
	log string // the path
}

// config makes Prometheus scrape and look at the alerts four times a second.
const config = `
global: {scrape_interval: 250ms, scrape_timeout: 250ms, evaluation_interval: 250ms}
rule_files: [%s]
scrape_configs: [{job_name: sash, static_configs: [{targets: [%s]}]}]
`

// startPrometheus starts a Prometheus with a file of rules that scrapes the targets,
// and waits until it answers. It is killed when the test ends.
func startPrometheus(t *testing.T, rules string, targets ...string) *prometheusServer {
	t.Helper()
	path, dir := needed(t, "prometheus"), t.TempDir()
	file := filepath.Join(dir, "prometheus.yml")
	text := fmt.Sprintf(config, strconv.Quote(rules), `"`+strings.Join(targets, `", "`)+`"`)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := &prometheusServer{log: filepath.Join(dir, "log")}
	log, err := os.Create(p.log)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close() // the process has its own descriptor
	cmd := exec.Command(path, "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address=127.0.0.1:0")
	cmd.Stdout, cmd.Stderr = log, log
	if err := redistest.Launch(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	redistest.WaitFor(t, "Prometheus to answer", p.ready)
	return p
}

var listening = regexp.MustCompile(`msg="Listening on" address=(\S+)`)

// ready finds the address in the log, and reports whether Prometheus answers there.
func (p *prometheusServer) ready() error {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err
	}
	match := listening.FindSubmatch(text)
	if match == nil {
		return fmt.Errorf("the log names no address:\n%s", text)
	}
	p.url = "http://" + string(match[1])
	response, err := http.Get(p.url + "/-/ready")
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d; the log:\n%s", response.StatusCode, text)
	}
	return nil
}

// get asks the API and stores what is in its field data.
func (p *prometheusServer) get(t *testing.T, path string, parameters url.Values, data any) {
	t.Helper()
	client := http.Client{Timeout: 10 * time.Second}
	response, err := client.Get(p.url + path + "?" + parameters.Encode())
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var reply struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.NewDecoder(response.Body).Decode(&reply); err != nil || reply.Status != "success" {
		t.Fatalf("%s %v: %q, %v", path, parameters, reply.Error, err)
	}
	if err := json.Unmarshal(reply.Data, data); err != nil {
		t.Fatalf("%s %v: %v in %s", path, parameters, err, reply.Data)
	}
}

// query returns the values of a query now. NaN is none: a panel does not show it.
func (p *prometheusServer) query(t *testing.T, expr string) []float64 {
	t.Helper()
	var data struct {
		Result []struct {
			Value [2]any
		}
	}
	p.get(t, "/api/v1/query", url.Values{"query": {expr}}, &data)
	var values []float64
	for _, r := range data.Result {
		text, _ := r.Value[1].(string)
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatalf("%s: %v", expr, err)
		}
		if !math.IsNaN(value) {
			values = append(values, value)
		}
	}
	return values
}

// alerts returns how many alerts of each name fire, and how many wait for their time to
// fire.
func (p *prometheusServer) alerts(t *testing.T) (firing, pending map[string]int) {
	t.Helper()
	var data struct {
		Alerts []struct {
			Labels map[string]string
			State  string
		}
	}
	p.get(t, "/api/v1/alerts", nil, &data)
	firing, pending = map[string]int{}, map[string]int{}
	for _, a := range data.Alerts {
		if a.State == "firing" {
			firing[a.Labels["alertname"]]++
		} else {
			pending[a.Labels["alertname"]]++
		}
	}
	return firing, pending
}

// alertNames returns the names of all alerts that Prometheus has loaded.
func (p *prometheusServer) alertNames(t *testing.T) []string {
	t.Helper()
	var data struct {
		Groups []struct {
			Rules []struct {
				Name, Type  string
				Annotations map[string]string
			}
		}
	}
	p.get(t, "/api/v1/rules", nil, &data)
	var names []string
	for _, g := range data.Groups {
		for _, r := range g.Rules {
			if r.Type != "alerting" {
				continue
			}
			names = append(names, r.Name)
			if r.Annotations["runbook"] == "" || r.Annotations["summary"] == "" {
				t.Errorf("%s has no runbook or no summary", r.Name)
			}
		}
	}
	return names
}

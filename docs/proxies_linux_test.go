package docs_test

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sashlimit/sash/internal/redistest"
	"github.com/sashlimit/sash/keyfuncs"
)

// proxyAddress is the address from which all proxies of the test connect. On Linux all of
// 127.0.0.0/8 is this host, so clients can have other addresses.
var proxyAddress = netip.MustParsePrefix("127.0.0.1/32")

// proxyClients are the addresses of the clients, and the keys that they must have.
var proxyClients = []struct{ from, to, key string }{
	{"127.0.0.9", "127.0.0.1", "ip:127.0.0.9"},
	{"::1", "::1", "ip:::/64"},
}

// hasIPv6 reports whether this host can be reached by ::1.
var hasIPv6 = sync.OnceValue(func() bool {
	l, err := net.Listen("tcp6", "[::1]:0")
	if err == nil {
		_ = l.Close()
	}
	return err == nil
})

// namings are the key functions of proxies.md, with the address of the test's proxies.
var namings = map[string]keyfuncs.Func{
	"list":         keyfuncs.IP(keyfuncs.TrustProxies(proxyAddress)),
	"hops 1":       keyfuncs.IP(keyfuncs.TrustHops(1)),
	"hops 2":       keyfuncs.IP(keyfuncs.TrustHops(2)),
	"hops 3":       keyfuncs.IP(keyfuncs.TrustHops(3)),
	"list, hops 1": keyfuncs.IP(keyfuncs.TrustProxies(proxyAddress), keyfuncs.TrustHops(1)),
	"list, hops 2": keyfuncs.IP(keyfuncs.TrustProxies(proxyAddress), keyfuncs.TrustHops(2)),
	"X-Real-IP":    keyfuncs.IP(keyfuncs.FromHeader("X-Real-IP"), keyfuncs.TrustProxies(proxyAddress)),
	"socket":       keyfuncs.IP(keyfuncs.TrustUnixSocket()),
	"first entry":  firstEntry,
}

// firstEntry names the client by the first entry of X-Forwarded-For, as no program should.
func firstEntry(r *http.Request) (string, error) {
	first, _, _ := strings.Cut(r.Header.Get("X-Forwarded-For"), ",")
	return first, nil
}

// topologies are the proxies that a request passes, the outermost first, by the names of
// their configurations on proxies.md, and the key functions that must name the client there.
var topologies = []struct {
	proxies []string
	namings []string
}{
	{[]string{"nginx: append"}, []string{"list", "hops 1", "list, hops 1"}},
	{[]string{"haproxy: append"}, []string{"list", "hops 1", "list, hops 1"}},
	{[]string{"caddy: edge"}, []string{"list", "hops 1", "list, hops 1"}},
	{[]string{"caddy: behind a proxy"}, []string{"list", "hops 1", "list, hops 1"}},
	{[]string{"nginx: replace"}, []string{"X-Real-IP", "list", "hops 1"}},
	{[]string{"nginx: unix socket"}, []string{"socket"}},
	{[]string{"haproxy: PROXY protocol", "nginx: PROXY protocol"}, []string{"list", "hops 1"}},

	{[]string{"nginx: append", "nginx: append"}, []string{"list", "hops 2", "list, hops 2"}},
	{[]string{"nginx: append", "haproxy: append"}, []string{"list", "hops 2", "list, hops 2"}},
	{[]string{"nginx: append", "caddy: behind a proxy"}, []string{"list", "hops 2", "list, hops 2"}},
	{[]string{"haproxy: append", "nginx: append"}, []string{"list", "hops 2", "list, hops 2"}},
	{[]string{"haproxy: append", "haproxy: append"}, []string{"list", "hops 2", "list, hops 2"}},
	{[]string{"haproxy: append", "caddy: behind a proxy"}, []string{"list", "hops 2", "list, hops 2"}},
	{[]string{"caddy: edge", "nginx: append"}, []string{"list", "hops 2", "list, hops 2"}},
	{[]string{"caddy: edge", "haproxy: append"}, []string{"list", "hops 2", "list, hops 2"}},
	{[]string{"caddy: edge", "caddy: behind a proxy"}, []string{"list", "hops 2", "list, hops 2"}},
	{[]string{"nginx: replace", "haproxy: append"}, []string{"list", "hops 2", "list, hops 2"}},
	{[]string{"haproxy: append", "nginx: append", "caddy: behind a proxy"}, []string{"list", "hops 3"}},
	{[]string{"nginx: append", "haproxy: append", "nginx: append"}, []string{"list", "hops 3"}},
}

// answer is what the server behind the proxies answers.
type answer struct {
	Keys   map[string]string // by the names of namings
	Header http.Header       // of the request, as it arrived
}

// answerKeys answers with the keys of a request.
func answerKeys(w http.ResponseWriter, r *http.Request) {
	a := answer{Keys: map[string]string{}, Header: r.Header}
	for name, naming := range namings {
		key, err := naming(r)
		if err != nil {
			key = "error: " + err.Error()
		}
		a.Keys[name] = key
	}
	json.NewEncoder(w).Encode(a)
}

// asked sends a request with the given fields from an address, and returns the answer.
func asked(t *testing.T, from, url string, fields http.Header) answer {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	transport := &http.Transport{DialContext: dialer.DialContext}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: 10 * time.Second}
	request, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header = fields.Clone()
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	var a answer
	if err := json.Unmarshal(body, &a); err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("status %d, %v: %s", response.StatusCode, err, body)
	}
	return a
}

// startTopologies starts all topologies with the server behind them, and returns the
// outermost proxy of each.
func startTopologies(t *testing.T) []proxy {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/", answerKeys)
	mux.HandleFunc("/ready", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, readiness) })
	mux.Handle("/right/", checkRoutes("/right/", namings["list"]))
	mux.Handle("/wrong/", checkRoutes("/wrong/", namings["hops 2"]))
	tcp, unix := serveOn(t, mux)
	for attempt := 1; ; attempt++ {
		all, outermost := planTopologies(t, tcp, unix)
		err := waitForProxies(outermost, startProxies(t, all))
		if err == nil {
			return outermost
		}
		if !errors.Is(err, errPortTaken) || attempt == 5 {
			t.Fatal(err)
		}
	}
}

// planTopologies returns all proxies of all topologies, and of these the outermost one of
// each topology. The server behind them listens at tcp and at unix.
func planTopologies(t *testing.T, tcp, unix string) (all, outermost []proxy) {
	t.Helper()
	configs := proxyConfigs(t)
	unused := maps.Clone(configs)
	for _, topology := range topologies {
		upstream := tcp
		for i, name := range slices.Backward(topology.proxies) {
			config, ok := configs[name]
			if !ok {
				t.Fatalf("proxies.md shows no configuration named %q", name)
			}
			delete(unused, name)
			port, err := redistest.FreePort()
			if err != nil {
				t.Fatal(err)
			}
			p := proxy{config: config, port: port, upstream: upstream}
			if strings.Contains(config.text, "unix:") {
				p.upstream = unix
			}
			all = append(all, p)
			if i == 0 {
				outermost = append(outermost, p)
			}
			upstream = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		}
	}
	for name := range unused {
		t.Errorf("no topology of the test uses %q of proxies.md", name)
	}
	return all, outermost
}

// Real proxies, configured as proxies.md says, name each client rightly, and nothing that
// the client sends changes its name.
func TestProxies(t *testing.T) {
	t.Parallel()
	outermost := startTopologies(t)
	byName := map[string]proxy{}
	for i, topology := range topologies {
		byName[strings.Join(topology.proxies, ", ")] = outermost[i]
		for _, client := range proxyClients {
			if strings.Contains(client.from, ":") && !hasIPv6() {
				continue
			}
			for _, forgery := range slices.Sorted(maps.Keys(forgeries)) {
				a := asked(t, client.from, outermost[i].url(client.to), forgeries[forgery])
				for _, naming := range topology.namings {
					if got := a.Keys[naming]; got != client.key {
						t.Errorf("%v, %s, %s: key %q, want %q; the server got %v",
							topology.proxies, forgery, naming, got, client.key, a.Header)
					}
				}
			}
		}
	}
	for _, arrival := range arrivals {
		a := asked(t, "127.0.0.9", byName[arrival.proxy].url("127.0.0.1"), forgeries[arrival.forgery])
		if got := a.Keys[arrival.naming]; got != arrival.key {
			t.Errorf("%s, %s, %s: key %q, want %q; the server got %v",
				arrival.proxy, arrival.forgery, arrival.naming, got, arrival.key, a.Header)
		}
	}
	checkByCurl(t, byName["nginx: append"])
	upgrade := http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"},
		"Sec-Websocket-Key": {"dGhlIHNhbXBsZSBub25jZQ=="}}
	a := asked(t, "127.0.0.9", byName["haproxy: append"].url("127.0.0.1"), upgrade)
	if !strings.EqualFold(a.Header.Get("Connection"), "Upgrade") || a.Header.Get("Upgrade") != "websocket" {
		t.Errorf("an upgrade through HAProxy arrives as %v", a.Header)
	}
}

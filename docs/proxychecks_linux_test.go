package docs_test

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/keyfuncs"
	"github.com/sashlimit/sash/nethttp"
)

// checkRoutes are what the commands of "Check it" on proxies.md ask, below path: one route
// that shows the key, and one with a limit.
func checkRoutes(path string, naming keyfuncs.Func) http.Handler {
	api := core.Must(core.New(core.Config{
		Name: "api", Store: memstore.New(), Limits: []core.Limit{core.PerMinute(100)},
	}))
	mux := http.NewServeMux()
	mux.HandleFunc(path+"whoami", func(w http.ResponseWriter, r *http.Request) {
		key, err := naming(r)
		fmt.Fprintln(w, key, err)
	})
	mux.Handle(path, nethttp.Middleware(api, naming)(http.NotFoundHandler()))
	return mux
}

// runChecks runs the commands of "Check it" against url from 127.0.0.9, and returns what
// they print.
func runChecks(t *testing.T, url string) []string {
	t.Helper()
	page, err := os.ReadFile("proxies.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Check it\n")
	section, _, _ = strings.Cut(section, "\n## ")
	home := t.TempDir()
	write(t, filepath.Join(home, ".curlrc"), "interface = 127.0.0.9\n")
	var printed []string
	for _, block := range regexp.MustCompile("(?ms)^```sh\n(.*?)^```$").FindAllStringSubmatch(section, -1) {
		script := strings.Replace(block[1], "https://api.example.com/", url, 1)
		shell := exec.Command("sh", "-e", "-c", script)
		shell.Env = append(os.Environ(), "CURL_HOME="+home)
		out, err := shell.CombinedOutput()
		if err != nil {
			t.Fatalf("%v:\n%s\nprinted\n%s", err, script, out)
		}
		printed = append(printed, strings.ReplaceAll(string(out), "\r", ""))
	}
	return printed
}

// checkByCurl tests that the commands of "Check it" show a good configuration as good and a
// bad one as bad. p is a proxy that appends to X-Forwarded-For.
func checkByCurl(t *testing.T, p proxy) {
	t.Helper()
	got := runChecks(t, p.url("127.0.0.1")+"right/")
	want := []string{strings.Repeat("ip:127.0.0.9 <nil>\n", 7),
		"X-Ratelimit-Remaining: 99\nX-Ratelimit-Remaining: 98\nX-Ratelimit-Remaining: 97\n"}
	if !slices.Equal(got, want) {
		t.Errorf("the commands print %q, want %q", got, want)
	}
	got = runChecks(t, p.url("127.0.0.1")+"wrong/")
	if strings.Count(got[0], "192.0.2.1") != 3 || got[1] != strings.Repeat("X-Ratelimit-Remaining: 99\n", 3) {
		t.Errorf("where clients choose their names the commands print %q, want 192.0.2.1 and 99", got)
	}
}

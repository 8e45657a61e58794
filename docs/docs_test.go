// Package docs_test compiles what the pages of this folder show.
package docs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// imports are the packages that a snippet may use without importing them, by
// the name that it uses.
var imports = map[string]string{
	"core":         "github.com/sashlimit/sash/core",
	"heavyhitters": "github.com/sashlimit/sash/extra/heavyhitters",
	"replay":       "github.com/sashlimit/sash/extra/replay",
	"memstore":     "github.com/sashlimit/sash/core/memstore",
	"redisstore":   "github.com/sashlimit/sash/core/redisstore",
	"headers":      "github.com/sashlimit/sash/headers",
	"keyfuncs":     "github.com/sashlimit/sash/keyfuncs",
	"httpclient":   "github.com/sashlimit/sash/extra/httpclient",
	"nethttp":      "github.com/sashlimit/sash/nethttp",
	"adapter":      "github.com/sashlimit/sash/nethttp/adapter",
	"sashadmin":    "github.com/sashlimit/sash/extra/sashadmin",
	"sashchi":      "github.com/sashlimit/sash/chi",
	"sashgin":      "github.com/sashlimit/sash/gin",
	"sashecho":     "github.com/sashlimit/sash/echo",
	"sashecho5":    "github.com/sashlimit/sash/echo5",
	"chi":          "github.com/go-chi/chi/v5",
	"gin":          "github.com/gin-gonic/gin",
	"echo":         "github.com/labstack/echo/v4",
	"middleware":   "github.com/go-chi/chi/v5/middleware",
	"regions":      "github.com/sashlimit/sash/extra/regions",
	"redis":        "github.com/redis/go-redis/v9",
	"atomic":       "sync/atomic",
	"storetest":    "github.com/sashlimit/sash/core/storetest",
	"remotetest":   "github.com/sashlimit/sash/core/storetest/remotetest",
	"sashotel":     "github.com/sashlimit/sash/extra/sashotel",
	"sashprom":     "github.com/sashlimit/sash/extra/sashprom",
	"sashgrpc":     "github.com/sashlimit/sash/extra/sashgrpc",
	"grpc":         "google.golang.org/grpc",
	"prometheus":   "github.com/prometheus/client_golang/prometheus",
	"promhttp":     "github.com/prometheus/client_golang/prometheus/promhttp",
	"filepath":     "path/filepath",
	"httptest":     "net/http/httptest",
	"http":         "net/http",
	"httputil":     "net/http/httputil",
	"template":     "html/template",
	"json":         "encoding/json",
	"netip":        "net/netip",
	"slog":         "log/slog",
	"tls":          "crypto/tls",
	"x509":         "crypto/x509",
}

// standard are the packages of the standard library whose path is their name.
const standard = " bytes context errors fmt io log os reflect slices strconv strings testing time "

// echo4 is the key of echo v4 in given: that of "echo" is v5.
const echo4 = "echo v4"

// importsByPage are the packages that mean something else on a page, or in a section of it, than in imports.
var importsByPage = map[string]map[string]string{
	"README.md": {
		"echo5": "github.com/labstack/echo/v5",
	},
	"echo": {
		"echo": "github.com/labstack/echo/v5",
	},
}

// given is what the snippets of every page may use, of each page, and of each section that has more than its page.
var given = map[string]string{
	"": `var api, search, login, global *core.Limiter
var identify func(ctx context.Context, presented string) (id string, err error)
var mux *http.ServeMux
var handler http.Handler
var ap, eu, us core.Store
`,
	"nethttp.md": netHTTP + "var proxy *httputil.ReverseProxy\n",
	"README.md": `var router chi.Router
var engine *gin.Engine
var e4 *echo.Echo
var e5 *echo5.Echo
`,
	"recipes.md": givenRecipes,
	"chi": netHTTP + `var r chi.Router
var corsHandler func(http.Handler) http.Handler
`,
	"gin": `var r *gin.Engine
var hello, searchHandler, loginHandler, corsHandler, auth gin.HandlerFunc
var plans map[string]*core.Limiter
`,
	echo4:  givenEcho,
	"echo": givenEcho,
	"redis.md": `var roots *x509.CertPool
var certificate tls.Certificate
`,
	"comparison.md": "var rdb *redis.Client\n",
}

const (
	netHTTP = "var hello, searchHandler, loginHandler http.HandlerFunc\n"

	givenEcho = `var e *echo.Echo
var hello, searchHandler, loginHandler echo.HandlerFunc
var auth echo.MiddlewareFunc
`
)

var (
	blocks = regexp.MustCompile("(?ms)^```go\n(.*?)^```$")
	// languages are what a block may be fenced as.
	languages = []string{"go", "go before", "sh", "http", "yaml", "nginx", "haproxy", "caddy", "text"}

	fences   = regexp.MustCompile("(?m)^```(.*)$")
	declared = regexp.MustCompile(`(?m)^(\w+)(?:, err)? :=`)
	uses     = regexp.MustCompile(`\b([a-z]+[0-9]*)\.[A-Z]`)
)

// snippet is a block of Go, and its key in given: a heading, or the name of the page.
type snippet struct{ place, code string }

// snippets returns the blocks of Go of a page.
func snippets(page, text string) (all []snippet) {
	for _, section := range strings.Split(text, "\n## ") {
		place, _, _ := strings.Cut(section, "\n")
		if given[place] == "" {
			place = page
		}
		for _, block := range blocks.FindAllStringSubmatch(section, -1) {
			all = append(all, snippet{place, block[1]})
		}
	}
	return all
}

// source makes a file of a snippet: a whole file is one already, and anything
// else is what stands in a function.
func source(place, snippet string) string {
	if strings.HasPrefix(snippet, "package ") || strings.Contains(snippet, "\npackage ") {
		return snippet
	}
	return withImports(place, given[""]+given[place]+function("_()", snippet))
}

// function makes a function of the statements of a snippet.
func function(signature, snippet string) string {
	body := "func " + signature + " {\n" + snippet
	for _, name := range declared.FindAllStringSubmatch(snippet, -1) {
		body += "_ = " + name[1] + "\n" // what a page declares to be used elsewhere
	}
	return body + "}\n"
}

// withImports makes a file of declarations.
func withImports(page, body string) string {
	var b strings.Builder
	b.WriteString("package snippet\n\nimport (\n")
	seen := map[string]bool{}
	for _, use := range uses.FindAllStringSubmatch(body, -1) {
		path, ok := importsByPage[page][use[1]]
		if !ok {
			path, ok = imports[use[1]]
		}
		if strings.Contains(standard, " "+use[1]+" ") {
			path, ok = use[1], true
		}
		if ok && !seen[use[1]] {
			seen[use[1]] = true
			fmt.Fprintf(&b, "\t%s %q\n", use[1], path)
		}
	}
	return b.String() + ")\n\n" + body
}

// pages returns the texts of the pages of this folder and of the README, by their paths.
func pages(t *testing.T) map[string]string {
	t.Helper()
	paths, err := filepath.Glob("*.md")
	if err != nil || len(paths) == 0 {
		t.Fatal(err, paths)
	}
	texts := map[string]string{}
	for _, path := range append(paths, "../README.md") {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		texts[path] = string(text)
	}
	return texts
}

// Every block of Go compiles and passes vet, but those fenced as "go before",
// which show other libraries. The snippets are the packages of a module beside
// this one, so nothing is written here; those about Prometheus are of another one.
// Those of recipes.md run, so that no option is refused.
func TestSnippets(t *testing.T) {
	dir, prom := t.TempDir(), t.TempDir()
	writeModule(t, dir, "../examples")
	writeModule(t, prom, "../extra/sashprom")
	for page, text := range pages(t) {
		if page == "../README.md" { // TestReadmeProgram compiles it
			continue
		}
		for i, fence := range fences.FindAllStringSubmatch(text, -1) {
			if info := fence[1]; i%2 == 0 && !slices.Contains(languages, info) {
				t.Errorf("%s: a block is fenced as %q: use one of %q", page, info, languages)
			}
		}
		if page == "recipes.md" {
			writeRecipes(t, dir, text)
			continue
		}
		for i, block := range snippets(page, text) {
			module, code := dir, source(block.place, block.code)
			if strings.Contains(code, "/sashprom\"") {
				module = prom
			}
			name := strings.TrimSuffix(page, ".md") + "-" + strconv.Itoa(i+1) // a package of its own
			file := filepath.Join(module, name, "snippet.go")
			if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
				t.Fatal(err)
			}
			write(t, file, code)
		}
	}
	runGo(t, dir, "vet", "./...")
	runGo(t, prom, "vet", "./...")
	if passed := strings.Count(runGo(t, dir, "test", "-v", "./recipes"), "--- PASS: Test"); passed < 13 {
		t.Errorf("%d recipes passed, want at least 13", passed)
	}
}

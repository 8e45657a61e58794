package docs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// givenRecipes is what the snippets of recipes.md may use beside given[""].
const givenRecipes = `var mux = http.NewServeMux()
var planOf = func(key string) (plan string) { return "free" }
var captchaSolved, passwordRight func(*http.Request) bool
var identify = func(context.Context, string) (string, error) { return "acme", nil }
var userOf = func(context.Context) (string, bool) { return "ada", true }
var tenantOf = func(context.Context) (string, bool) { return "acme", true }
var runModel func(http.ResponseWriter, *http.Request) (tokens int64)
var send func(ctx context.Context, job string) error
var weigh = func(next http.Handler) http.Handler { return next }
var hello = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
var loginHandler, graphql = hello, hello
`

// limiters are the limiters of given[""] as ones that work.
const limiters = `var api = core.Must(core.New(core.Config{
	Name: "api", Store: memstore.New(), Limits: []core.Limit{core.PerMinute(100)},
}))
var login = core.Must(api.Rule("login", core.Per(5, 15*time.Minute)))
`

// writeRecipes writes the blocks of recipes.md as one package of tests below dir.
func writeRecipes(t *testing.T, dir, text string) {
	t.Helper()
	code := limiters + givenRecipes
	for i, block := range blocks.FindAllStringSubmatch(text, -1) {
		code += function(fmt.Sprintf("TestRecipe%d(t *testing.T)", i+1), block[1])
	}
	if err := os.Mkdir(filepath.Join(dir, "recipes"), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "recipes", "page_test.go"), withImports("recipes.md", code))
	_, example, _ := strings.Cut(text, "(\"plans.json\") // ") // what the recipe says of its file
	example, _, _ = strings.Cut(example, "\n")
	write(t, filepath.Join(dir, "recipes", "plans.json"), example)
}

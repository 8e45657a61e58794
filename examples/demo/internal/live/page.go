package live

import (
	"embed"
	"html/template"
	"slices"

	"github.com/sashlimit/sash/core"
)

//go:embed page
var files embed.FS

// page is the page, with a lane for each judge.
var page = template.Must(template.ParseFS(files, "page/index.html"))

// lane is a judge as the page shows it.
type lane struct{ ID, Title, Text string }

// fixed is the judge that is not in sash.
const fixed = "fixed"

// texts say what each judge promises, and when to choose it.
var texts = map[string]string{
	"log":     "exact: never above the limit",
	fixed:     "not in sash: up to twice the limit",
	"counter": "an estimate in 70 bytes a client, up to twice the limit; choose it for millions of clients",
	"coarse":  "never above the limit, in constant memory; choose it for large limits",
	"bucket":  "a burst, then an even flow: below twice the limit; choose it for bursts with a refill",
}

// lanes returns the lanes in the order of the page. The log answers the requests, and the fixed window beside it makes
// the point.
func lanes() (all []lane) {
	for _, a := range core.Algorithms() {
		all = append(all, lane{a.String(), "sash, " + a.String(), texts[a.String()]})
	}
	return slices.Insert(all, 1, lane{fixed, "Fixed window", texts[fixed]})
}

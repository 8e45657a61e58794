package sashadmin

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
	"strings"

	"github.com/sashlimit/sash/internal/report"
)

// page is what a template gets.
type page struct {
	Heaviest, Stores bool // which pages there are
	Data             any
}

//go:embed pages.html.tmpl
var source string

// pages are the templates. Keys are shown quoted as in Go, so that no control character and
// no change of direction hides what they say, and then escaped.
var pages = template.Must(template.New("").Funcs(template.FuncMap{"wait": report.Wait}).Parse(source))

// contentSecurityPolicy allows a page its style sheet and its forms, and nothing else.
var contentSecurityPolicy = "default-src 'none'; style-src 'sha256-" + styleHash(source) +
	"'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// styleHash returns the hash of the style sheet in a template.
func styleHash(source string) string {
	_, rest, _ := strings.Cut(source, "<style>")
	style, _, _ := strings.Cut(rest, "</style>")
	hash := sha256.Sum256([]byte(style))
	return base64.StdEncoding.EncodeToString(hash[:])
}

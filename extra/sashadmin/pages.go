package sashadmin

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/internal/report"
)

// page is the data of a template.
type page struct {
	Heaviest, Stores bool // pages to link
	Data             any
}

//go:embed pages.html.tmpl
var source string

// timeFormat is the format of the times on pages, which are in UTC.
const timeFormat = "2006-01-02 15:04:05 UTC"

// pages are the templates. Unprintable characters of keys are shown in Go's syntax, so that no control character or
// change of direction hides any text, and all text is escaped. Errors, which may contain a server's reply, are shown
// without such characters.
var pages = template.Must(template.New("").Funcs(template.FuncMap{
	"wait": report.Wait,
	"key": func(key string) string {
		quoted := strconv.Quote(key)
		return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
	},
	"retry": func(r retryAfter) string {
		if time.Duration(r) == core.Never {
			return "never"
		}
		return report.Wait(time.Duration(r))
	},
	"time": func(t time.Time) string { return t.UTC().Format(timeFormat) },
	"printable": func(text string) string {
		return strings.Map(func(r rune) rune {
			if unicode.IsPrint(r) {
				return r
			}
			return unicode.ReplacementChar
		}, text)
	},
}).Parse(source))

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

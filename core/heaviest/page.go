package heaviest

import (
	"bytes"
	"html/template"
	"net/http"
)

// page shows rankings. A key is quoted as in Go, so that no control character and no
// change of direction hides what it says, and then escaped.
var page = template.Must(template.New("page").Parse(`<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<title>Heaviest clients</title>
<h1>Heaviest clients</h1>
{{- range .}}
<h2>{{.Limiter}}{{with .Rule}}, rule {{.}}{{end}}: {{.Outcome}}</h2>
<p>{{.Requests}} requests since {{.Since.UTC.Format "2006-01-02 15:04:05 UTC"}}.
A client that is not listed has sent at most {{.Unlisted}}.</p>
<table>
<tr><th>client</th><th>at least</th><th>at most</th></tr>
{{- range .Clients}}
<tr><td><code>{{printf "%q" .Key}}{{if .Cut}}...{{end}}</code></td><td>{{.AtLeast}}</td><td>{{.Requests}}</td></tr>
{{- end}}
</table>
{{- else}}
<p>No request has been counted.</p>
{{- end}}
</html>
`))

// ServeHTTP answers GET and HEAD with a page of all rankings, without scripts.
//
// THE PAGE NAMES CLIENTS, BY ADDRESS, ACCOUNT OR WHATEVER THEIR KEYS ARE. IT ASKS NOBODY
// WHO THEY ARE: MOUNT IT BEHIND YOUR OWN AUTHENTICATION.
func (c *Clients) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "Method Not Allowed", http.StatusMethodNotAllowed)
		return
	}
	var body bytes.Buffer
	if err := page.Execute(&body, c.Rankings()); err != nil {
		http.Error(w, "Internal Server Error", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodGet {
		_, _ = w.Write(body.Bytes()) // the client may have left
	}
}

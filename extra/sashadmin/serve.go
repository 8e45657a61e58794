package sashadmin

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"path"
	"strings"
)

// maxQuery is the largest length in bytes of a query. A key of 8 KiB with every byte escaped fits.
const maxQuery = 32 << 10

// answer is the answer of the handler: a page, or its data as JSON.
type answer struct {
	status int
	page   string // name of a template of pages
	data   any
	next   string // redirect for a browser, if not empty
}

// errorAnswer returns an answer with an error text.
func errorAnswer(status int, text string) answer {
	return answer{status: status, page: "error", data: map[string]string{"error": text}}
}

// route is the method and the function of a path.
type route struct {
	method string
	answer func(*Handler, *http.Request, url.Values) answer
}

var routes = map[string]route{
	"rules":    {http.MethodGet, (*Handler).rules},
	"client":   {http.MethodGet, (*Handler).client},
	"api-key":  {http.MethodPost, (*Handler).apiKey},
	"heaviest": {http.MethodGet, (*Handler).heaviest},
	"stores":   {http.MethodGet, (*Handler).states},
	"reset":    {http.MethodPost, (*Handler).reset},
}

// ServeHTTP answers with a page or with JSON; see the documentation of the package.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, asJSON := strings.CutSuffix(strings.TrimPrefix(r.URL.Path, "/"), ".json")
	a := h.find(w, r, name, asJSON)
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Frame-Options", "DENY")
	header.Set("Content-Security-Policy", contentSecurityPolicy)
	// A browser that sends no referrer sends no Origin either, which a reset needs.
	header.Set("Referrer-Policy", "same-origin")
	if a.next != "" && !asJSON {
		header.Set("Location", a.next)
		w.WriteHeader(http.StatusSeeOther)
		return
	}
	var body bytes.Buffer
	var err error
	if asJSON {
		header.Set("Content-Type", "application/json")
		encoder := json.NewEncoder(&body)
		encoder.SetIndent("", "  ")
		err = encoder.Encode(a.data)
	} else {
		header.Set("Content-Type", "text/html; charset=utf-8")
		err = pages.ExecuteTemplate(&body, a.page, page{h.config.Heaviest != nil, len(h.stores) > 0, a.data})
	}
	if err != nil {
		http.Error(w, "Internal Server Error", http.StatusInternalServerError)
		return
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(body.Bytes()) // the client may have left
}

// find returns the answer for a path.
func (h *Handler) find(w http.ResponseWriter, r *http.Request, name string, asJSON bool) answer {
	if name == "" && !asJSON {
		// Relative links need a path that ends in a slash.
		if uri, _, _ := strings.Cut(r.RequestURI, "?"); uri != "" && !strings.HasSuffix(uri, "/") {
			return answer{next: "./" + path.Base(uri) + "/"}
		}
		name = "rules"
	}
	route, ok := routes[name]
	if !ok || name == "heaviest" && h.config.Heaviest == nil || name == "stores" && len(h.stores) == 0 {
		return errorAnswer(http.StatusNotFound, "there is no such page")
	}
	if r.Method != route.method && (r.Method != http.MethodHead || route.method != http.MethodGet) {
		allow := strings.Replace(route.method, "GET", "GET, HEAD", 1)
		w.Header().Set("Allow", allow)
		return errorAnswer(http.StatusMethodNotAllowed, "the method is not allowed: use "+allow)
	}
	if err := h.crossOrigin.Check(r); err != nil {
		return errorAnswer(http.StatusForbidden, err.Error())
	}
	if len(r.URL.RawQuery) > maxQuery {
		return errorAnswer(http.StatusRequestURITooLong, "the query is too long")
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return errorAnswer(http.StatusBadRequest, "the query cannot be read")
	}
	return route.answer(h, r, query)
}
